"""A manifest of 5,000 files with counts and bounds of 20 columns: our writer against PyIceberg's.

Ours goes from messages to the closed file, PyIceberg's from data files that are made already. A worker that
closes a file encodes its counts and bounds (some 25 µs a file) and sends them along, so that is done before
the clock starts; a second figure counts it in, as if one process did both. Both compress with deflate.
Numbers differ from file to file and from column to column, as they do in a table: equal ones would compress
to nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, PrimitiveType, StringType

from benchmarks.figure import Figure, at_least
from benchmarks.measure import duel, timed
from benchmarks.place import scratch
from calve.model.batch import Batch
from calve.model.file import ColumnMetrics, FileClosed, FileKind
from calve.table.fileio import StoreFileIO
from calve.table.lists import Content
from calve.table.manifests import Shape, added_manifest

_SNAPSHOT = 4_611_686_018_427_387_904
_TYPES: tuple[PrimitiveType, ...] = (LongType(),) * 8 + (DoubleType(),) * 4 + (StringType(),) * 8
_WORDS = ("amber", "birch", "cliff", "drift", "ember", "fjord", "glade", "harbour", "inlet", "juniper")
_SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c1"), spec_id=0)


def run(quick: bool) -> list[Figure]:
    files, rounds = (50, 1) if quick else (5000, 7)
    columns = [
        NestedField(place, f"c{place}", kind, required=False) for place, kind in enumerate(_TYPES, start=1)
    ]
    schema = Schema(*columns, schema_id=0)
    random = Random(5000)
    with scratch() as folder:
        closed = [_closed(random, number, f"file://{folder}/data") for number in range(files)]
        for file in closed:
            _ = file.metrics.encoded  # as the worker does when it closes a file
        entries = [_entry(file) for file in closed]
        io = StoreFileIO()
        outcome = duel(
            rounds,
            lambda number: _ours(io, folder / f"ours-{number}.avro", schema, closed),
            lambda number: _peer(io, folder / f"peer-{number}.avro", schema, entries),
        )
        encoding = median(timed(_encode, files).wall_s for files in _fresh(closed, rounds))
        sizes = [(folder / f"{who}-0.avro").stat().st_size // 1024 for who in ("ours", "peer")]
    return [
        Figure(
            f"manifest of {files:,} files × {len(_TYPES)} columns",
            outcome.ours_s * 1000,
            "ms",
            at_least(10),
            outcome.peer_s * 1000,
            "PyIceberg",
            outcome.speedup,
            f"by CPU time {outcome.speedup_cpu:.1f}×; {sizes[0]:,} KB against {sizes[1]:,} KB",
        ),
        Figure(
            "the same, with what workers encode",
            (outcome.ours_s + encoding) * 1000,
            "ms",
            None,
            outcome.peer_s * 1000,
            "PyIceberg",
            outcome.peer_s / (outcome.ours_s + encoding),
        ),
    ]


def _fresh(files: list[FileClosed], rounds: int) -> Iterator[list[FileClosed]]:
    """The files again and again, as if nothing of them was encoded."""
    for _ in range(rounds):
        yield [replace(file, metrics=replace(file.metrics)) for file in files]


def _encode(files: list[FileClosed]) -> None:
    for file in files:
        _ = file.metrics.encoded


def _ours(io: FileIO, path: Path, schema: Schema, files: list[FileClosed]) -> None:
    added_manifest(io, f"file://{path}", Shape(schema, _SPEC, Content.DATA), _SNAPSHOT, files)


def _peer(io: FileIO, path: Path, schema: Schema, entries: list[ManifestEntry]) -> None:
    with write_manifest(2, _SPEC, schema, io.new_output(f"file://{path}"), _SNAPSHOT, "deflate") as writer:
        for entry in entries:
            writer.add_entry(entry)


def _closed(random: Random, number: int, location: str) -> FileClosed:
    ids = range(1, len(_TYPES) + 1)
    rows = random.randrange(100_000, 1_000_000)
    ends = {place: sorted(_value(random, _TYPES[place - 1]) for _ in range(2)) for place in ids}
    return FileClosed(
        batch=Batch(number, number + 1),
        worker="w0",
        path=f"{location}/c1={number % 100}/bench/{number:020d}/w0/{random.getrandbits(64):016x}.parquet",
        kind=FileKind.DATA,
        schema_id=0,
        spec_id=0,
        partition=(number % 100,),
        record_count=rows,
        file_bytes=rows * 97,
        metrics=ColumnMetrics(
            column_bytes={place: random.randrange(10_000, 10_000_000) for place in ids},
            value_counts=dict.fromkeys(ids, rows),
            null_counts={place: 0 if place % 5 else random.randrange(rows) for place in ids},
            nan_counts={place: 0 for place in ids if isinstance(_TYPES[place - 1], DoubleType)},
            lower_bounds={place: least for place, (least, _) in ends.items()},
            upper_bounds={place: greatest for place, (_, greatest) in ends.items()},
        ),
        split_offsets=(4, 16_000_004, 32_000_004),
    )


def _value(random: Random, kind: PrimitiveType) -> bytes:
    """A bound as a column has it: a number, or the first 16 letters of a text."""
    if isinstance(kind, StringType):
        return " ".join(random.choices(_WORDS, k=4))[:16].encode()
    if isinstance(kind, DoubleType):
        return struct.pack("<d", random.randrange(10**7) / 100)
    return struct.pack("<q", random.randrange(10**9))


def _entry(file: FileClosed) -> ManifestEntry:
    metrics = file.metrics
    fields: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": file.path,
        "file_format": FileFormat.PARQUET,
        "partition": Record(*file.partition),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_bytes,
        "column_sizes": dict(metrics.column_bytes),
        "value_counts": dict(metrics.value_counts),
        "null_value_counts": dict(metrics.null_counts),
        "nan_value_counts": dict(metrics.nan_counts),
        "lower_bounds": dict(metrics.lower_bounds),
        "upper_bounds": dict(metrics.upper_bounds),
        "key_metadata": None,
        "split_offsets": list(file.split_offsets),
        "equality_ids": None,
        "sort_order_id": None,
    }
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=_SNAPSHOT, data_file=DataFile.from_args(**fields)
    )
