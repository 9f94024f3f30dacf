"""Arrow in, files out. Runs in executors: imports pyarrow and nothing heavier, knows no catalog.

record batches ─▶ conform ─▶ spool ─▶ collapse ─▶ arrange ─▶ Parquet ─▶ FileClosed

plan       what a worker must know: schema with field ids, layout, deletes, file settings
conform    rows brought to the table's types, or refused with their place
cast       one column brought to the table's type
ops        op words to codes
spool      an epoch that may be larger than memory
spill      its parts on disk
collapse   the net change of each key
same       whether two rows say the same
transform  Iceberg's partition transforms on Arrow arrays
murmur     Iceberg's hash, and that of keys
int128     decimals as two halves
layout     which partition a row is in
order      sort orders on rows
merge      rows that were sorted in pieces, sorted as a whole
arrange    rows partition after partition, sorted, in memory or by way of the disk
paths      where files go
bounds     values in Iceberg's binary form, truncated as Iceberg does
metrics    counts and bounds from the footer that the writer itself wrote
rolling    when a file is full
parquet    one Parquet file while it is written
files      the rows of a partition as files of the target size
worker     all of it for one batch
"""
