"""An epoch may be larger than memory (P9): what goes through the disk comes out as if it had not."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.model.errors import BadRow, StoreError
from calve.writer import spill
from calve.writer.ops import DELETE, OP_COLUMN, UPSERT
from calve.writer.spool import Spool, sweep

LARGE = 1 << 30
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("seq", pa.int64()), (OP_COLUMN, pa.int8())])


def changes_of(ids: list[int | None], *, first: int = 0, op: int = UPSERT) -> pa.Table:
    """Changes of these keys, numbered in `seq`."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": pa.array([None if one is None else str(one % 3) for one in ids], pa.string()),
            "seq": pa.array(range(first, first + len(ids)), pa.int64()),
            OP_COLUMN: pa.array([op] * len(ids), pa.int8()),
        },
        schema=SCHEMA,
    )


def last_seq(tables: list[pa.Table], key: tuple[str, ...]) -> dict[Any, int]:
    rows = [row for table in tables for row in table.to_pylist()]
    return {tuple(row[name] for name in key): row["seq"] for row in rows}


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


ids = st.none() | st.integers(0, 40)
epochs = st.lists(st.lists(ids, max_size=60), max_size=8)


@given(
    epoch=epochs,
    memory_bytes_max=st.sampled_from([1_000, 4_000, 20_000, LARGE]),
    key=st.sampled_from([("id",), ("part", "id")]),
    sequence=st.sampled_from([(), ("seq",)]),
    flush_after=st.integers(0, 8),
)
@settings(max_examples=60, deadline=None)
def test_what_comes_out_is_the_last_change_of_each_key_whatever_was_spilled(
    epoch: list[list[int | None]],
    memory_bytes_max: int,
    key: tuple[str, ...],
    sequence: tuple[str, ...],
    flush_after: int,
) -> None:
    tables, first = [], 0
    for one in epoch:
        tables.append(changes_of(one, first=first))
        first += len(one)
    with (
        TemporaryDirectory() as folder,
        Spool(Path(folder), memory_bytes_max, key=key, sequence=sequence) as spool,
    ):
        for number, table in enumerate(tables):
            spool.add(table)
            if number == flush_after:
                spool.flush()
        expected = last_seq(tables, key)
        for _ in range(2):  # a batch whose premise broke is written again
            parts = list(spool.parts())
            assert sum(part.num_rows for part in parts) == len(expected)
            assert last_seq(parts, key) == expected
            assert all(part.schema == SCHEMA for part in parts)


def test_p9_memory_and_parts_stay_under_their_shares(tmp_path: Path) -> None:
    limit = 400_000
    with Spool(tmp_path, limit, key=("id",)) as spool:
        for number in range(20):
            spool.add(changes_of([number * 1000 + place for place in range(1000)]))
            assert spool.held_bytes <= limit // 4
        assert spool.spilled_rows > 15_000
        sizes = [part.nbytes for part in spool.parts()]
        assert max(sizes) <= limit // 8
        assert sum(part.num_rows for part in spool.parts()) == 20_000


def test_a_part_that_is_too_large_is_split_again_and_its_files_go(tmp_path: Path) -> None:
    limit = 40_000  # parts of 4,000 bytes: sixteen do not hold 5,000 changes
    with Spool(tmp_path, limit, key=("id",)) as spool:
        spool.add(changes_of(list(range(5_000))))
        spool.flush()
        before = files_in(tmp_path)
        for part in spool.parts():
            assert part.nbytes <= limit // 8
        assert sorted(files_in(tmp_path)) == sorted(before)


def test_a_part_that_no_split_makes_smaller_is_folded(tmp_path: Path) -> None:
    with Spool(tmp_path, 100, key=("id",)) as spool:
        for number in range(30):
            spool.add(changes_of([1, 2], first=2 * number))
        assert last_seq(list(spool.parts()), ("id",)) == {(1,): 58, (2,): 59}


def test_case_49_a_hot_key_does_not_grow_the_spill(tmp_path: Path) -> None:
    with Spool(tmp_path, 100_000, key=("id",)) as spool:
        for number in range(100):
            spool.add(changes_of([7] * 1000, first=number * 1000))
        assert spool.spilled_rows == 0
        assert [part.to_pylist() for part in spool.parts()] == [
            [{"id": 7, "part": "1", "seq": 99_999, OP_COLUMN: UPSERT}]
        ]


def test_a_tie_over_two_spills_is_refused_when_the_parts_are_asked_for(tmp_path: Path) -> None:
    with Spool(tmp_path, LARGE, key=("id",), sequence=("seq",)) as spool:
        spool.add(changes_of([7], first=5))
        spool.flush()
        spool.add(changes_of([7], first=5, op=DELETE))
        with pytest.raises(BadRow, match="key id = 7 share the sequence seq = 5"):
            list(spool.parts())


def test_rows_without_a_key_all_come_back_in_pieces_and_in_order(tmp_path: Path) -> None:
    with Spool(tmp_path, 50_000) as spool:
        for number in range(20):
            spool.add(changes_of([1] * 500, first=number * 500))
        parts = list(spool.parts())
        assert len(parts) > 5
        assert [seq for part in parts for seq in part["seq"].to_pylist()] == list(range(10_000))


def test_every_type_survives_the_disk(tmp_path: Path) -> None:
    uuids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([UUID(int=n).bytes for n in range(50)], pa.binary(16))
    )
    table = pa.table(
        {
            "id": uuids,
            "nested": pa.array([[{"a": n, "b": str(n)}] if n % 3 else None for n in range(50)]),
            "map": pa.array([[("k", n)] for n in range(50)], pa.map_(pa.string(), pa.int64())),
            "inside": pa.StructArray.from_arrays([uuids], names=["u"]),
            OP_COLUMN: pa.array([UPSERT] * 50, pa.int8()),
        }
    )
    with Spool(tmp_path, 2_000, key=("id",)) as spool:
        spool.add(table)
        spool.flush()
        result = pa.concat_tables(spool.parts())
        assert result.schema == table.schema
        assert sorted(result.to_pylist(), key=str) == sorted(table.to_pylist(), key=str)


def test_a_slice_of_rows_with_a_uuid_inside_a_struct_is_kept_on_its_own(tmp_path: Path) -> None:
    uuids = pa.array([UUID(int=n).bytes for n in range(10_000)], pa.uuid())
    table = pa.table({"inside": pa.StructArray.from_arrays([uuids], names=["u"])})
    with Spool(tmp_path, LARGE) as spool:
        spool.add(table.slice(7, 2))
        (part,) = spool.parts()
        assert part.to_pylist() == table.slice(7, 2).to_pylist()
        assert part.get_total_buffer_size() < 1_000


def test_a_small_slice_does_not_keep_a_large_table_alive(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    with Spool(tmp_path, LARGE, key=("id",)) as spool:
        for number in range(10):
            large = changes_of(list(range(100_000)))
            spool.add(large.slice(number, 1))
            del large
        assert pa.total_allocated_bytes() - before < 200_000


def test_many_small_tables_are_joined(tmp_path: Path) -> None:
    with Spool(tmp_path, LARGE) as spool:
        for number in range(1000):
            spool.add(changes_of([number]))
        (part,) = spool.parts()
        assert part.num_rows == 1000
        assert part.column(0).num_chunks < 300


def test_nothing_added_is_nothing_given_and_no_file(tmp_path: Path) -> None:
    with Spool(tmp_path / "spill", LARGE, key=("id",)) as spool:
        spool.add(SCHEMA.empty_table())
        spool.flush()
        assert list(spool.parts()) == []
    assert not (tmp_path / "spill").exists()


def test_clear_removes_its_files_and_the_spool_can_be_used_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1_000, key=("id",))
    for _ in range(2):
        spool.add(changes_of(list(range(1000))))
        assert spool.spilled_rows
        assert files_in(tmp_path)
        spool.clear()
        assert list(tmp_path.iterdir()) == []
        assert list(spool.parts()) == []


def test_an_iteration_that_is_given_up_leaves_only_what_clear_removes(tmp_path: Path) -> None:
    with Spool(tmp_path, 10_000, key=("id",)) as spool:
        spool.add(changes_of(list(range(5000))))
        spool.flush()
        parts = spool.parts()
        next(parts)
        del parts
        assert sum(part.num_rows for part in spool.parts()) == 5000
    assert list(tmp_path.iterdir()) == []


CRASH = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from calve.writer.spool import Spool
spool = Spool(Path(sys.argv[1]), 1000, key=("id",))
spool.add(pa.table({"id": range(1000), "__calve_op": pa.array([1] * 1000, pa.int8())}))
spool.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = set(files_in(tmp_path))
    assert left
    with Spool(tmp_path, 1_000, key=("id",)) as spool:
        spool.add(changes_of(list(range(100))))
        spool.flush()
        mine = set(files_in(tmp_path)) - left
        assert sweep(tmp_path) == 1
        assert set(files_in(tmp_path)) == mine
        assert sweep(tmp_path) == 0
        assert sum(part.num_rows for part in spool.parts()) == 100


def test_sweeping_a_folder_that_is_not_there_finds_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == 0


def test_a_lock_that_a_sweep_took_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep may come between the making of a lock file and its lock."""
    real = fcntl.flock
    swept: list[bool] = []

    def flock(descriptor: int, how: int) -> None:
        if not swept:
            swept.append(True)
            assert sweep(tmp_path) == 1
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = spill.SpillFolder(tmp_path)
    assert folder.path.with_suffix(".lock").exists()
    folder.remove()


def test_only_the_owner_can_read_what_was_spilled(tmp_path: Path) -> None:
    folder = spill.SpillFolder(tmp_path)
    assert folder.path.stat().st_mode & 0o077 == 0
    folder.remove()


def test_case_35_a_spill_that_cannot_be_written_is_a_store_error_with_its_place(tmp_path: Path) -> None:
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    spool = Spool(blocked, LARGE, key=("id",))
    spool.add(changes_of([1]))
    with pytest.raises(StoreError, match="a file, not a folder") as refused:
        spool.flush()
    assert "Make room" in refused.value.hint


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_case_35_a_full_disk_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="No space left"):
        spill.append([changes_of(list(range(1000)))], SCHEMA, [spill.Part(Path("/dev/full"))], None)


@pytest.mark.parametrize("key", [("id",), ()])
def test_case_35_a_spill_that_failed_midway_is_tried_again_without_doubling_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    cut, room = spill._cut, [True]
    calls: list[int] = []

    def cut_until_the_disk_is_full(table: pa.Table, hashed: spill.Hash | None) -> list[pa.Table]:
        calls.append(table.num_rows)
        if not room[0] and len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return cut(table, hashed)

    monkeypatch.setattr(spill, "_SPLIT_ROWS", 10)
    monkeypatch.setattr(spill, "_cut", cut_until_the_disk_is_full)
    with Spool(tmp_path, LARGE, key=key) as spool:
        spool.add(changes_of(list(range(40))))
        spool.flush()
        spool.add(changes_of(list(range(40, 80)), first=40))
        room[0] = False
        calls.clear()
        with pytest.raises(StoreError, match="No space left"):
            list(spool.parts())
        assert spool.spilled_rows == 40
        room[0] = True
        for _ in range(2):
            rows = [row["id"] for table in spool.parts() for row in table.to_pylist()]
            assert sorted(rows) == list(range(80))
