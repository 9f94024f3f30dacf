"""Arrow in, files out. Runs in executors: imports pyarrow and nothing heavier, knows no catalog.

record batches ─▶ conform ─▶ spool ─▶ collapse ─▶ partition, sort ─▶ Parquet ─▶ FileClosed

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
layout     rows cut by partition and sorted
paths      where files go
bounds     values in Iceberg's binary form, truncated as Iceberg does
metrics    counts and bounds from the footer that the writer itself wrote
rolling    when a file is full
parquet    one open file that rolls at the target size
worker     all of it for one batch
"""
