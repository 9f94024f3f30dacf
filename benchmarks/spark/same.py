"""Whether two tables hold the same rows: a figure of a stream that lost some would say nothing.

Tables are read by Iceberg's Spark runtime, ours too, and compared by their count and by the sum of the
hashes of their rows, which asks nothing of their order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.spark import ours


def check_same(session: Any, folder: Path, table: str, peer: str) -> int:
    """Refuse tables that differ; how many rows they have."""
    session.catalog.refreshTable(peer)  # a query has a session of its own: this one may remember the table
    peers = session.table(peer)
    mine = session.read.format("iceberg").load(ours.metadata_location(folder, table))
    told = [_digest(frame.select(*sorted(peers.columns))) for frame in (mine, peers)]
    if told[0] != told[1]:
        raise RuntimeError(f"{table} and {peer} differ: rows and hashes are {told[0]} and {told[1]}")
    return told[0][0]


def _digest(frame: Any) -> tuple[int, int]:
    from pyspark.sql import functions as F

    hashed = F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))
    rows, total = frame.agg(F.count(F.lit(1)), hashed).collect()[0]
    return rows, int(total or 0)
