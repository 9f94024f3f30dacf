"""Append of 1 KB rows through the sink, against pyarrow's ParquetWriter with the same settings.

Both get the same Arrow tables: a number, a time and eight columns of words, about 1 KB a row. The peer only
writes Parquet. The sink also checks the rows, gathers row groups, rolls files, counts NaNs, reads bounds from
its footers, fsyncs and commits a snapshot. In memory an fsync costs nothing; set BENCH_FOLDER to measure a
disk, where ours has the cost of being durable and the peer has not.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figure import Figure, at_least
from benchmarks.lake import new_sink
from benchmarks.measure import duel
from benchmarks.place import scratch
from benchmarks.words import WORDS
from calve import IcebergSink
from calve.writer.parquet import parquet_options
from calve.writer.plan import FileSettings

_TEXT_COLUMNS = 8
_TEXT_BYTES = 125
_ROWS_A_CALL = 16_000
"""About 16 MB: what the sink gathers for a row group, so that both write row groups of one size."""
_WANTED_ROWS_A_SECOND = 200_000


def run(quick: bool) -> list[Figure]:
    calls, rounds = (1, 1) if quick else (16, 7)
    rows_a_call = 500 if quick else _ROWS_A_CALL
    tables = [rows_of_words(Random(number), number * rows_a_call, rows_a_call) for number in range(calls)]
    rows, size = calls * rows_a_call, sum(table.nbytes for table in tables)
    with scratch() as folder:
        sink = new_sink(folder, "append")
        write_epoch(sink, [tables[0]])
        outcome = duel(
            rounds,
            lambda _: write_epoch(sink, tables),
            lambda number: _write_file(folder / f"{number}.parquet", tables),
        )
        sink.close()
    rate = rows / outcome.ours_s
    throughput = Figure(
        f"append of {rows:,} rows of {size / rows:,.0f} bytes",
        rate,
        "rows/s",
        at_least(0.85),
        rows / outcome.peer_s,
        "ParquetWriter",
        outcome.speedup,
        f"by CPU time {outcome.speedup_cpu:.2f}×; {size / outcome.ours_s / 1e6:.0f} MB/s",
    )
    # By CPU time: it is what an idle core gives, however many share it now.
    wanted = Figure(
        "the same, rows a second of CPU time",
        rows / outcome.ours_cpu_s,
        "rows/s",
        at_least(_WANTED_ROWS_A_SECOND, "rows/s"),
        rows / outcome.peer_cpu_s,
        "ParquetWriter",
    )
    return [throughput, wanted]


def write_epoch(sink: IcebergSink, tables: list[pa.Table]) -> None:
    """One epoch of these rows, from the first to the snapshot."""
    epoch = sink.frontier()
    sink.begin_epoch(epoch)
    for table in tables:
        sink.write_batch(table)
    sink.commit_epoch(epoch)


def _write_file(path: Path, tables: list[pa.Table]) -> None:
    schema = tables[0].schema
    # No dictionary: no value comes twice, which the sink finds out by a sample.
    with pq.ParquetWriter(path, schema, **parquet_options(FileSettings(), [])) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)


def rows_of_words(random: Random, first: int, count: int) -> pa.Table:
    """Rows of about 1 KB."""
    texts = {
        f"text_{column}": pa.array([_text(random) for _ in range(count)]) for column in range(_TEXT_COLUMNS)
    }
    times = pa.array(range(first, first + count), pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "at": times, **texts})


def _text(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=20))[:_TEXT_BYTES]
