"""Decisions, pure: the same input gives the same answer. No clock, no I/O, no Spark, no Iceberg.

mint     which batches there are
assign   which batch a change belongs to
gather   which files a batch has
judge    what the table says of a batch
retry    what follows an attempt
readmit  which rows of a quarantine go into the table
"""
