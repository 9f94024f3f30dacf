"""What runs: the sink of one process, and the coordinator that it shares with whatever moves the data.

sink         IcebergSink: open, epochs, close
first        what the first rows ask of a table
rows         rows as they come, as changes that fit
epoch        the rows of one batch on their way into files
plan         the table's plan as the writer's, and what a batch relies on
publish      files are closed and committed
start        a run claims its table
claim        how it does
coordinator  from the claim to the last commit
hold         what a run last saw of its table, and its one way to the catalog
foreign      what others committed meanwhile
refusal      verdicts as errors
health       how the sink is, what it has done, what it can do
result       what its calls answer
clock        the time, at the edge
"""
