"""Upsert of 100,000 changes into a table of 1,000,000 rows, against PyIceberg's `Table.upsert`.

Nine changes of ten are of rows that are there, spread over the whole table; one is new. The sink names the
keys in a delete file and writes the rows: it reads nothing of the table. PyIceberg reads the rows that match,
compares them, and rewrites every file that has one. It has one round: it takes long, and does not vary.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.changes import changes, rows
from benchmarks.figure import Figure, at_least
from benchmarks.lake import NAMESPACE, new_sink, plain_catalog
from benchmarks.measure import milliseconds, timed
from benchmarks.place import scratch
from calve import IcebergSink

_UPSERT = {"write.mode": "upsert", "equality.delete.columns": "id"}


def run(quick: bool) -> list[Figure]:
    table_rows, count, rounds = (2_000, 200, 1) if quick else (1_000_000, 100_000, 5)
    with scratch() as folder:
        sink = new_sink(folder, "ours", _UPSERT)
        _write_epoch(sink, rows(0, table_rows))
        inputs = [_changes(table_rows, count, version) for version in range(1, rounds + 1)]
        ours = [timed(_write_epoch, sink, one) for one in inputs]
        table = _peer_table(folder, table_rows, inputs[0].schema)
        peer = timed(table.upsert, inputs[0], ["id"])
    return [
        Figure(
            f"upsert of {count:,} changes into {table_rows:,} rows",
            milliseconds(ours),
            "ms",
            at_least(10),
            peer.wall_s * 1000,
            "PyIceberg upsert",
            peer.wall_s * 1000 / milliseconds(ours),
            f"by CPU time {peer.cpu_s / sorted(took.cpu_s for took in ours)[rounds // 2]:.1f}×",
        )
    ]


def _changes(table_rows: int, count: int, version: int) -> pa.Table:
    new = count // 10
    known = changes(0, count - new, table_rows, version)
    return pa.concat_tables([known, rows(table_rows + version * new, new)]).combine_chunks()


def _write_epoch(sink: IcebergSink, table: pa.Table) -> None:
    epoch = sink.frontier()
    sink.begin_epoch(epoch)
    sink.write_batch(table)
    sink.commit_epoch(epoch)


def _peer_table(folder: Path, table_rows: int, schema: pa.Schema) -> Table:
    table = plain_catalog(folder).create_table((NAMESPACE, "peer"), schema)
    table.append(rows(0, table_rows))
    return table
