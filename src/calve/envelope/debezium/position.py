"""Positions: where in the delivery of its partition an event stands, as text that sorts so.

    PostgreSQL   last commit LSN · LSN · 0 snapshot, 1 stream · order in the transaction, or Kafka's offset,
                 or UNKNOWN
    MySQL        number of the binlog file · position · 0 snapshot, 1 stream · row · 0 delete, 1 others ·
                 Kafka's offset in a snapshot, or UNKNOWN

PostgreSQL delivers transactions in the order of their commits, and the changes of a transaction in the order
of their LSNs: the LSN alone goes back where transactions interleave (case 68). Events before the first commit
that a connector saw have no commit LSN: theirs stands for it, which is below that of every later commit. A
snapshot's rows share one LSN, which the first event after it may have, too; rows of one COPY share theirs.
Where a connector sends no transaction metadata, Kafka's offset tells such rows apart: then an event that is
sent again right after itself is not recognised, and is written twice in append mode. In upsert mode it makes
no difference. A stream that has no offsets does not tell them apart at all, and says so (UNKNOWN): of such
events only those are replays that stand before the last one.

MySQL's rows are told apart by their place in the binlog event; both events of a changed key share it, and the
delete comes first. With GTIDs the position is still that of the files of one server: after a failover to
another one start anew. In both, SNAPSHOT_AT is where the 0 of a snapshot stands.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import UNKNOWN

POSTGRES = "postgresql"
MYSQL = ("mysql", "mariadb")
SUPPORTED = (POSTGRES, *MYSQL)

_TEXT, _LONG = T.StringType(), T.LongType()
SOURCE = T.StructType(
    [
        T.StructField("connector", _TEXT),
        T.StructField("snapshot", _TEXT),
        T.StructField("db", _TEXT),
        T.StructField("schema", _TEXT),
        T.StructField("table", _TEXT),
        T.StructField("sequence", _TEXT),
        T.StructField("lsn", _LONG),
        T.StructField("file", _TEXT),
        T.StructField("pos", _LONG),
        T.StructField("row", _LONG),
        T.StructField("ts_ms", _LONG),
    ]
)
"""What is read of an event's `source`."""
TRANSACTION = T.StructType([T.StructField("id", _TEXT), T.StructField("total_order", _LONG)])


def commit_lsn(source: Column) -> Column:
    """The LSN of the last commit before an event's transaction; null before the first."""
    # '["1","2"]' or '[null,"2"]'
    return F.substring_index(F.substring(source["sequence"], 3, 20), '"', 1).try_cast("long")


def lsn(source: Column) -> Column:
    """The LSN of an event; that of an incremental snapshot stands in the sequence alone."""
    last = F.substring_index(F.substring_index(source["sequence"], '"', -2), '"', 1)
    return F.coalesce(last.try_cast("long"), source["lsn"])


def position(source: Column, transaction: Column, op: Column, commit: Column, at: Column) -> Column:
    """The position of an event, whose `commit_lsn` and `lsn` are given; null where it has none."""
    offset = F.col("offset")
    streams = F.when(F.coalesce(source["snapshot"], F.lit("false")) == "false", "1").otherwise("0")
    order = F.coalesce(_digits(transaction["total_order"]), _digits(offset), F.lit(UNKNOWN))
    postgres = F.concat(_digits(F.coalesce(commit, at)), _digits(at), streams, order)
    rank = F.when(op == "d", "0").otherwise("1")
    copied = F.when(streams == "1", _digits(F.lit(0).cast("long"))).otherwise(
        F.coalesce(_digits(offset), F.lit(UNKNOWN))
    )
    number = F.substring_index(source["file"], ".", -1).try_cast("long")
    row = F.coalesce(source["row"], F.lit(0))
    mysql = F.concat(*(_digits(number), _digits(source["pos"]), streams, _digits(row), rank, copied))
    return F.when(source["connector"] == POSTGRES, postgres).when(source["connector"].isin(*MYSQL), mysql)


def _digits(number: Column) -> Column:
    """A number as text of one width, in the order of the numbers, none of which is below zero."""
    return F.lpad(F.hex(number), 16, "0")


def collection(source: Column) -> Column:
    """The table of an event, as a transaction's END names it; null where a message has none."""
    of = F.when(source["connector"] == POSTGRES, source["schema"]).otherwise(source["db"])
    return F.when(source["table"].isNotNull(), F.concat_ws(".", of, source["table"]))
