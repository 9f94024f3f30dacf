"""Materialize, live: SUBSCRIBE by a PostgreSQL connection.

    latestOffset: which time is it there? ──▶ [start, end) in Spark's checkpoint
    a task: SUBSCRIBE … AS OF start - 1 UP TO end ──FETCH──▶ texts ──Arrow──▶ rows, and a mark at `end`

| module | what |
|---|---|
| `client` | the connection, the times, the cursor; psycopg |
| `rows` | texts to record batches, a column at a time |
| `datasource` | `spark.readStream.format("calve-materialize")` |

Every micro-batch is a subscription of its own with both bounds given, so that a micro-batch that is done
again reads the same, and nothing but two numbers is remembered. What follows the last micro-batch must still
be there when the next one begins, also after a stop: `ALTER MATERIALIZED VIEW … SET (RETAIN HISTORY FOR
'1hr')`.

Executors need psycopg. They get `source` sent, so modules import neither `config` nor Spark at their top,
but for `datasource`, which imports Spark's own interface.
"""
