"""Replay: rows of a quarantine go to the table that they were meant for, once they fit. Without Spark.

door        what a person calls: list_quarantine, replay_quarantine
names       which tables and sinks belong to a quarantine, and how its rows were read
kept        the rows that wait in a quarantine
scan        rows of a snapshot by their values, with its deletes applied
candidates  rows as they would be written: what fits, and what of it goes in
round       one replay, from a look at both tables to its two commits
result      what is answered

What is decided is decided in `protocol/readmit.py`.
"""
