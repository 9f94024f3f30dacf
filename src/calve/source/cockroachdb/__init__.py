"""CockroachDB's changefeeds into cloud storage: files of rows, and RESOLVED files between them.

    bucket ──listing──▶ offsets ──▶ names of a micro-batch ──executors──▶ reader ──▶ rows and marks, in Arrow
            (driver)    (checkpoint)

| module | what |
|---|---|
| `names` | what a file's name says |
| `listing` | offsets: which files were read, how far the feed is resolved; pure |
| `plan` | the declared tables, as executors get them |
| `reader` | bytes to record batches; in executors, with pyarrow alone |
| `blocks`, `lines`, `keys` | lines of JSON, and the keys of deletes |
| `parquet`, `footer`, `texts` | Parquet, and rows of it as JSON |
| `carriers` | how a column travels |
| `datasource` | `spark.readStream.format("calve-cockroachdb")` |
| `infer` | columns of a table that nobody declared, each guess named |

All of it goes to executors (`runtime/spark/ship.py`), so modules import neither `config` nor Spark at their
top, but for `datasource`, which imports Spark's own interface.
"""
