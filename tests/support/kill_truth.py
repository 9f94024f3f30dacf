"""What a table must show, and a small reader that tells what it shows, snapshot by snapshot.

    workload(variant) ──▶ epochs, and the rows after each of them
    read_table(folder) ──▶ Shown: every snapshot with its frontier and its rows

The reader knows neither calve nor PyIceberg: SQLite for the pointer, JSON for the metadata, fastavro
for the manifests, pyarrow for rows. Equality deletes are applied as Iceberg's specification says: to
data files with a smaller sequence number, everywhere under an unpartitioned spec, else only in the same
spec and partition.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow.parquet as pq

Row = tuple[Any, ...]

EPOCHS = 3
CATALOG = "catalog.db"
_SEED = 20261
_REGIONS = ("north", "south", "west")
_CHANGES = 6
_KEYS = 5
_PAYLOAD_BYTES = 100_000
_PAYLOAD_ROWS = 80


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of table."""

    name: str
    options: dict[str, object]
    columns: tuple[str, ...]
    key: str | None = None
    epochs: int = EPOCHS


UPSERT = Variant(
    "upsert",
    # The partition does not follow from the key: deletes are global, and keys move between partitions.
    {"write.mode": "upsert", "equality.delete.columns": "id", "partition.spec": "identity(region)"},
    ("id", "region", "amount"),
    key="id",
)
APPEND = Variant("append", {"write.mode": "append"}, ("id", "region", "amount"))
SPILL = Variant(
    "spill",
    {
        "write.mode": "upsert",
        "equality.delete.columns": "id",
        "memory.limit": "32MB",
        "max.buffer.bytes": "2MB",
    },
    ("id", "payload"),
    key="id",
    epochs=2,
)
VARIANTS = {variant.name: variant for variant in (UPSERT, APPEND, SPILL)}


@dataclass(frozen=True, slots=True)
class Epoch:
    """The changes of one epoch: rows, and an op for each where the table has a key."""

    number: int
    rows: list[dict[str, Any]]
    ops: list[str] | None


def workload(variant: Variant) -> tuple[list[Epoch], list[list[Row]]]:
    """The epochs 1, 2, … of a variant, and the rows of its table after 0, 1, 2, … of them."""
    random = Random(_SEED)
    epochs: list[Epoch] = []
    truths: list[list[Row]] = [[]]
    by_key: dict[int, Row] = {}
    appended: list[Row] = []
    for number in range(1, variant.epochs + 1):
        rows, ops = _draw_epoch(variant, random)
        for row, op in zip(rows, ops, strict=True):
            values = tuple(row[name] for name in variant.columns)
            if variant.key is None:
                appended.append(values)
            elif op == "d":
                by_key.pop(row[variant.key], None)
            else:
                by_key[row[variant.key]] = values
        epochs.append(Epoch(number, rows, ops if variant.key else None))
        truths.append(sorted([*by_key.values(), *appended]))
    return epochs, truths


def _draw_epoch(variant: Variant, random: Random) -> tuple[list[dict[str, Any]], list[str]]:
    if "payload" in variant.columns:
        # Large values, so that few rows fill the memory of a spool.
        ids = [random.randrange(_PAYLOAD_ROWS * 2) for _ in range(_PAYLOAD_ROWS)]
        return [{"id": id_, "payload": random.randbytes(_PAYLOAD_BYTES)} for id_ in ids], ["u"] * len(ids)
    rows = [
        {"id": random.randrange(_KEYS), "region": random.choice(_REGIONS), "amount": random.randrange(1000)}
        for _ in range(_CHANGES)
    ]
    return rows, [random.choice("uuud") for _ in rows]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as a reader sees it."""

    snapshot_id: int
    parent_id: int | None
    lower: int
    frontier: int
    generation: int
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Shown:
    """All that a table shows: its pointer, main with the oldest snapshot first, and every snapshot."""

    pointer: str | None = None
    main: list[Snapshot] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def frontier(self) -> int:
        return self.main[-1].frontier if self.main else 0


def pointer_of(folder: Path) -> str | None:
    """The metadata file that the catalog names; `None` before there is a table."""
    with sqlite3.connect(f"file:{folder / CATALOG}?mode=ro", uri=True) as database:
        try:
            rows = database.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
        except sqlite3.OperationalError:
            return None
    return rows[0][0] if rows else None


def read_table(folder: Path, columns: tuple[str, ...]) -> Shown:
    """Every snapshot of the one table in a folder's catalog."""
    pointer = pointer_of(folder) if (folder / CATALOG).exists() else None
    if pointer is None:
        return Shown()
    metadata = json.loads(_path(pointer).read_bytes())
    bare = {spec["spec-id"] for spec in metadata["partition-specs"] if not spec["fields"]}
    snapshots = {
        snapshot["snapshot-id"]: Snapshot(
            snapshot["snapshot-id"],
            snapshot.get("parent-snapshot-id"),
            int(snapshot["summary"]["calve.lower"]),
            int(snapshot["summary"]["calve.frontier"]),
            int(snapshot["summary"]["calve.generation"]),
            _rows(snapshot["manifest-list"], columns, bare),
        )
        for snapshot in metadata["snapshots"]
    }
    main = []
    current = metadata["refs"].get("main", {}).get("snapshot-id")
    while current is not None:
        main.append(snapshots[current])
        current = snapshots[current].parent_id
    return Shown(pointer, main[::-1], list(snapshots.values()))


def check_shown(shown: Shown, truths: list[list[Row]]) -> list[str]:
    """What is wrong with a table: an empty list says that all of it is right (P1, P2, P3)."""
    wrong = [
        f"snapshot {snapshot.snapshot_id} with frontier {snapshot.frontier} has rows {_brief(snapshot.rows)}"
        for snapshot in shown.snapshots
        if sorted(snapshot.rows) != truths[max(snapshot.frontier - 1, 0)]
    ]
    frontier = 0
    for snapshot in shown.main:
        if snapshot.lower != frontier or snapshot.frontier <= frontier:
            wrong.append(f"[{snapshot.lower}, {snapshot.frontier}) follows frontier {frontier}")
        frontier = snapshot.frontier
    return wrong


def named_files(folder: Path) -> list[str]:
    """Every file that the table's current metadata reaches, the metadata file itself first."""
    pointer = pointer_of(folder)
    assert pointer is not None
    found = [str(_path(pointer))]
    for snapshot in json.loads(_path(pointer).read_bytes())["snapshots"]:
        found.append(str(_path(snapshot["manifest-list"])))
        for manifest in _avro(snapshot["manifest-list"]):
            found.append(str(_path(manifest["manifest_path"])))
            found += [
                str(_path(entry["data_file"]["file_path"])) for entry in _avro(manifest["manifest_path"])
            ]
    return list(dict.fromkeys(found))


def _brief(rows: list[Row]) -> str:
    return f"({len(rows)}) " + ", ".join(str(row)[:60] for row in rows[:8])


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    sequence: int
    scope: tuple[int, str]
    """Spec and partition."""


def _rows(manifest_list: str, columns: tuple[str, ...], bare: set[int]) -> list[Row]:
    data: list[_File] = []
    deletes: list[_File] = []
    for manifest in _avro(manifest_list):
        spec = manifest["partition_spec_id"]
        for entry in _avro(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            inherited = (
                manifest["sequence_number"] if entry["sequence_number"] is None else entry["sequence_number"]
            )
            file = entry["data_file"]
            found = _File(file["file_path"], inherited, (spec, repr(file["partition"])))
            (data if file["content"] == 0 else deletes).append(found)
    removed = [(delete, _key_values(delete.path)) for delete in deletes]
    return [row for file in data for row in _surviving(file, columns, removed, bare)]


def _surviving(
    file: _File,
    columns: tuple[str, ...],
    removed: list[tuple[_File, tuple[list[str], set[Row]]]],
    bare: set[int],
) -> Iterator[Row]:
    reaching = [
        keys
        for delete, keys in removed
        if delete.sequence > file.sequence and (delete.scope[0] in bare or delete.scope == file.scope)
    ]
    for row in pq.read_table(_path(file.path), use_threads=False, partitioning=None).to_pylist():
        if not any(tuple(row[name] for name in names) in values for names, values in reaching):
            yield tuple(row[name] for name in columns)


def _key_values(location: str) -> tuple[list[str], set[Row]]:
    table = pq.read_table(_path(location), use_threads=False, partitioning=None)
    return table.column_names, {tuple(row.values()) for row in table.to_pylist()}


def _avro(location: str) -> Iterator[dict[str, Any]]:
    with _path(location).open("rb") as file:
        yield from fastavro.reader(file)  # type: ignore[misc]


def _path(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))
