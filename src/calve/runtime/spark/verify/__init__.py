"""Verify: does the table equal its source? By key and by content, on Spark.

state     the rows of a source as of a time, folded from its changes
source    all changes that a source has now
compare   two frames, row by row
postgres  the rows of a live PostgreSQL table, at an LSN
door      what a person asks

What is compared is worked out another way than the sink does it: changes are folded by an aggregate, and a
view is an ordinary query over the rows. So a mistake of the sink is not made twice.
"""
