"""Open and resume at 10,000 snapshots: from nothing in memory to the first snapshot of the new run.

The sink reads the table, claims it, skips an epoch that is in the table, and commits the next. The history
was made by group commits on the SQLite catalog. Python's imports are not in it.
"""

from __future__ import annotations

from benchmarks.figure import Figure, at_most
from benchmarks.lake import commit_epoch, new_sink, table_with_history
from benchmarks.measure import timed
from benchmarks.place import scratch
from calve import IcebergSink


def run(quick: bool) -> list[Figure]:
    height = 20 if quick else 10_000
    with scratch() as folder:
        table_with_history(folder, "old", height)
        opened: list[IcebergSink] = []
        open_took = timed(lambda: opened.append(new_sink(folder, "old")))
        resume_took = timed(_resume, opened[0])
    return [
        Figure(
            f"open and resume at {height:,} snapshots",
            open_took.wall_s + resume_took.wall_s,
            "s",
            at_most(5, "s"),
            note=f"open {open_took.wall_s:.2f} s ({open_took.cpu_s:.2f} s of CPU), a skipped and a new epoch "
            f"{resume_took.wall_s:.2f} s ({resume_took.cpu_s:.2f} s of CPU)",
        )
    ]


def _resume(sink: IcebergSink) -> None:
    last = sink.frontier() - 1
    if sink.begin_epoch(last):
        raise AssertionError(f"epoch {last} is in the table and was not skipped")
    sink.commit_epoch(last)
    commit_epoch(sink, last + 1)
