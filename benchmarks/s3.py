"""Append of 1 KB rows to S3 on loopback (SeaweedFS), against the same append on the local disk.

Both are the same sink with the same rows; the catalogs differ, which takes a few milliseconds of a second.
The server takes its share of the same two cores: it writes every byte to the same disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from benchmarks.append import rows_of_words, write_epoch
from benchmarks.figure import Figure, at_least
from benchmarks.lake import NAMESPACE
from benchmarks.measure import duel
from benchmarks.rest import seaweedfs
from calve import IcebergSink, SinkConfig

_ROWS_A_CALL = 16_000
_WANTED_ROWS_A_SECOND = 50_000


def run(quick: bool) -> list[Figure]:
    calls, rounds = (1, 1) if quick else (16, 7)
    rows_a_call = 500 if quick else _ROWS_A_CALL
    tables = [rows_of_words(Random(number), number * rows_a_call, rows_a_call) for number in range(calls)]
    rows, size = calls * rows_a_call, sum(table.nbytes for table in tables)
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as folder, seaweedfs() as server:
        remote, local = server.sink("append"), _local(Path(folder))
        write_epoch(remote, [tables[0]])
        write_epoch(local, [tables[0]])
        outcome = duel(rounds, lambda _: write_epoch(remote, tables), lambda _: write_epoch(local, tables))
        remote.close()
        local.close()
    rate = rows / outcome.ours_s
    return [
        Figure(
            f"append of {rows:,} rows of {size / rows:,.0f} bytes to S3",
            rate,
            "rows/s",
            at_least(_WANTED_ROWS_A_SECOND, "rows/s"),
            note=f"{size / outcome.ours_s / 1e6:.0f} MB/s",
        ),
        Figure(
            "the same",
            rate,
            "rows/s",
            at_least(0.6),
            rows / outcome.peer_s,
            "local disk",
            outcome.speedup,
            f"by CPU time {outcome.speedup_cpu:.2f}×",
        ),
    ]


def _local(folder: Path) -> IcebergSink:
    named = {"namespace": NAMESPACE, "table.name": "append", "warehouse": str(folder)}
    return IcebergSink(SinkConfig.from_options(named)).open()
