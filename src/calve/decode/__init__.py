"""Decode: JSON to rows in columns, by Arrow's kernels. In executors, with pyarrow alone.

    tables.py      what is read: a table's columns, and its key
    carriers.py    how a value of JSON becomes one of a column
    keys.py        keys that stand in an array, without names
    messages.py    batches of messages: which of them are read here
    nested.py      what lies in lists and maps, laid out flat
    changefeed.py, subscription.py, events.py    what messages say: CockroachDB, Materialize, Debezium

What is plain is read here, and nothing else. A message that is not (a value that has no place, another shape,
a mark, an error of any kind) stays as it is, and the envelope reads it by Spark's functions, which know all
there is to know about it. So what is read here must be exactly what the envelope would have made of it.
"""
