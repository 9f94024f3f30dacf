"""Arrow in, files out. Runs in executors: imports pyarrow and nothing heavier, knows no catalog.

    record batches ─▶ conform ─▶ spool ─▶ collapse ─▶ partition, sort ─▶ Parquet ─▶ FileClosed

    plan       what a worker must know: schema with field ids, layout, deletes, file settings
    conform    rows brought to the table's types, or refused with their place
    ops        op words to codes
    spool      an epoch that may be larger than memory
    collapse   the net change of each key
    transform  Iceberg's partition transforms on Arrow arrays
    bounds     values in Iceberg's binary form, truncated as Iceberg does
    metrics    counts and bounds from the footer that the writer itself wrote
    parquet    one open file that rolls at the target size
    worker     all of it for one batch
"""
