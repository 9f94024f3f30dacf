"""What runs: the sink of one process, and the coordinator that it shares with whatever moves the data.

sink         IcebergSink: open, epochs, close
life         which calls are in order, one at a time, and when the run is over
order        which epoch may begin, and whether it is written or skipped
current      the epoch that is open
target       the table of a sink: found, made, claimed
first        what the first rows ask of a table, and a table that is there must be
rows         how the configuration has rows read
epoch        the rows of one batch on their way into files
buffer       … before they move on
fit          what they ask of the schema
spill        where an epoch goes that is larger than memory
plan         the table's plan as the writer's, and what a batch relies on
publish      files are closed and committed
start        a run claims its table
claim        how it does
coordinator  from the claim to the last commit
hold         what a run last saw of its table, and its one way to the catalog
foreign      what others committed meanwhile
refusal      verdicts as errors
doctor       what a catalog and its store can do, tried
machine      what this machine has, tried
probe        … a Spark session, in a process of its own
diagnosis    what was tried, and how it ended
health       how the sink is, what it has done, what it can do
meter        what it does, counted as it happens
result       what its calls answer
clock        the time, at the edge
addresses    where a table is that a person names
drop         a sink is forgotten
inspect      what a table tells of its sinks, with nothing running; a room of its own
replay       rows of a quarantine into their table; a room of its own
spark        the pipeline on Spark; a room of its own
"""
