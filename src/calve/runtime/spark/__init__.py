"""The pipeline on Spark: micro-batches of any stream of changes, as batches of an Iceberg table.

door        what a person calls
builder     the words that streams and bounded frames share
said        what was said, until it is a StreamConfig
intervals   `10 seconds` in the units of a column
checks      what is refused before a query starts
lakes       where a catalog is configured
translate   Iceberg's Spark properties in PyIceberg's words; jdbc: URLs; page: the list as documentation
reader      feeds of messages, by their sources; declared: what is said of their tables
feed        one stream that carries several tables; samples: what of it is looked at; topics: what is kept
feed_writer how a feed is written; labels: what its snapshots say; delivery: what it delivers again
process     a micro-batch into all tables of a stream, in step
pipeline    what happens to a micro-batch in one table; work: the values that its steps hand on
batches     its rows as closed batches and what waits; slots: which files of which batch
bounded     a frame as one batch
target      a table that a run holds
quarantine  where rows go that do not fit
session     Spark's settings for a query
run         one run of a sink on a query: claim, base, checkpoint
frame       what Spark does: times, shuffle, tasks
stash       what waits beside the checkpoint, and who may say so
outbox      batches whose files are closed, kept until their commit landed
files       small files beside a checkpoint
ship        how the code of tasks reaches executors
read        any snapshot of a table as a frame
rows        its plan as joins and a union; shapes: Iceberg's types in Spark
native      files by Spark's own reader
carried     files by pyarrow in executors; constants: what their partitions say of them
progress    what a person sees

Executors import `reader` and `writer`, never this room.
"""
