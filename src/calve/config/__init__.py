"""What a user asked for: checked, frozen, and safe to print. No I/O, no catalog, no Arrow.

options ('partition.spec' = …) ──read──▶ SinkConfig ──▶ runtime, table, writer
Python  SinkConfig(partition=…) ────────────▲

names     which names are refused, before anything is created
secret    values that never show (P10)
layout    `day(ts), bucket(16, id)` and `ts desc`
units     sizes, durations and truth values as text
settings  the base of all models here: one kind of error, whoever finds it
catalog   CatalogConfig
sink      SinkConfig
stream    StreamConfig: a sink, and how its stream tells time
options   the one list of options, its reader and its page of documentation
"""
