"""What a table tells of its sinks, with nothing running: no Spark, no query, the catalog and its files alone.

door     what a person calls: status, history, as_of
status   how each sink of a table is
files    how many files wait for what
waits    what waits beside a checkpoint
queries  a snapshot in the words of engines
result   what is answered
"""
