"""Paths: unique, telling, and harmless whatever a row holds."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from decimal import Decimal
from pathlib import PurePosixPath

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadPartition
from calve.model.file import FileKind, PartitionValue
from calve.model.layout import PartitionField, Transform, TransformKind
from calve.writer.paths import (
    SEGMENT_BYTES_MAX,
    batch_folder,
    human,
    new_file_path,
    partition_folders,
    plain,
    segment,
)
from calve.writer.plan import WritePlan

BATCH = Batch(5, 17)
IDENTITY = Transform(TransformKind.IDENTITY)


def plan(kind: pa.DataType, transform: Transform = IDENTITY, name: str = "p") -> WritePlan:
    return WritePlan(
        sink_id="sales.orders",
        data_location="file:///lake/t/data",
        schema=pa.schema([("c", kind)]),
        schema_id=0,
        spec_id=0,
        partition=(PartitionField("c", transform),),
        partition_names=(name,),
    )


def test_a_path_tells_sink_batch_and_worker_and_what_the_file_is() -> None:
    day = plan(pa.timestamp("us"), Transform(TransformKind.DAY), "ts_day")
    path = new_file_path(day, BATCH, "w-3", FileKind.DATA, (20_772,), 7)
    folder, _, name = path.rpartition("/")
    assert folder == "file:///lake/t/data/sales-orders/17/w-3/ts_day=2026-11-15"
    assert folder.startswith(batch_folder(day, BATCH))
    assert name.startswith("data-00007-")
    assert uuid.UUID(name[11:47]).version == 4


@pytest.mark.parametrize("partition", [(), (20_772,)])
def test_a_delete_file_lies_in_no_folder_of_a_partition(partition: tuple[PartitionValue, ...]) -> None:
    """DuckDB 1.5 reads the key from such a folder's name, not from the file."""
    identity = plan(pa.date32(), name="c")
    path = new_file_path(identity, BATCH, "w-3", FileKind.EQUALITY_DELETE, partition, 0)
    assert path.startswith("file:///lake/t/data/sales-orders/17/w-3/eqdel-00000-")


def test_case_33_no_two_attempts_name_the_same_file() -> None:
    one = plan(pa.int32())
    paths = {new_file_path(one, BATCH, "w", FileKind.DATA, (1,), 0) for _ in range(1000)}
    assert len(paths) == 1000


HOSTILE = [
    "",
    ".",
    "..",
    "../../evil",
    "a/b",
    "a\nb",
    "100%",
    "%2F",
    "ünïcödé 😀",
    "a=b",
    "null",
    "\0",
    "~",
    "a;b*",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_case_57_a_value_cannot_leave_its_folder(value: str) -> None:
    assert_harmless(value)


@given(value=st.text())
def test_case_57_no_text_can_leave_its_folder(value: str) -> None:
    assert_harmless(value)


def assert_harmless(value: str) -> None:
    (folder,) = partition_folders(plan(pa.string(), name=value or "p"), (value,))
    for piece in (folder, segment(value)):
        assert piece.isascii()
        assert piece.isprintable()
        assert not set(piece) & set("/\\ ")
        assert piece not in ("", ".", "..")
        assert len(piece) <= SEGMENT_BYTES_MAX
        assert PurePosixPath("/a", piece).parent == PurePosixPath("/a")


@given(values=st.lists(st.text(max_size=300), min_size=2, max_size=2, unique=True))
def test_different_values_have_different_folders_even_when_they_are_cut(values: list[str]) -> None:
    one, two = (partition_folders(plan(pa.string()), (value,)) for value in values)
    assert one != two


def test_a_long_segment_is_cut_between_escapes_and_carries_a_hash() -> None:
    for length in range(60, 70):
        cut = segment("a" * (length % 3) + "é" * length)
        assert len(cut) <= SEGMENT_BYTES_MAX
        kept, _, digest = cut.rpartition("-")
        assert len(digest) == 16
        assert kept.lstrip("a").replace("%C3", "").replace("%A9", "") == ""


UTC_INSTANT = dt.datetime(2017, 12, 1, 10, 12, 55, 38194, dt.UTC)
MICROS = (UTC_INSTANT - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    "value, kind, source, expected",
    [
        (None, TransformKind.DAY, pa.timestamp("us"), "null"),
        (47, TransformKind.YEAR, pa.date32(), "2017"),
        (-1, TransformKind.MONTH, pa.date32(), "1969-12"),
        (575, TransformKind.MONTH, pa.date32(), "2017-12"),
        (17_501, TransformKind.DAY, pa.timestamp("us"), "2017-12-01"),
        (420_034, TransformKind.HOUR, pa.timestamp("us"), "2017-12-01-10"),
        (-1, TransformKind.HOUR, pa.timestamp("us"), "1969-12-31-23"),
        (17_501, TransformKind.IDENTITY, pa.date32(), "2017-12-01"),
        (36_775_038_194, TransformKind.IDENTITY, pa.time64("us"), "10:12:55.038194"),
        (MICROS, TransformKind.IDENTITY, pa.timestamp("us"), "2017-12-01T10:12:55.038194"),
        (MICROS, TransformKind.IDENTITY, pa.timestamp("us", "UTC"), "2017-12-01T10:12:55.038194+00:00"),
        (2**31 - 1, TransformKind.DAY, pa.date32(), "2147483647"),
        (3, TransformKind.BUCKET, pa.date32(), "3"),
        (True, TransformKind.IDENTITY, pa.bool_(), "true"),
        (b"\0\xff", TransformKind.IDENTITY, pa.binary(), "AP8="),
        (Decimal("1E+2"), TransformKind.IDENTITY, pa.decimal128(9), "100"),
        (Decimal("-0.10"), TransformKind.IDENTITY, pa.decimal128(9, 2), "-0.10"),
        (1.5, TransformKind.IDENTITY, pa.float64(), "1.5"),
        (uuid.UUID(int=5), TransformKind.IDENTITY, pa.uuid(), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_values_are_written_for_people_as_iceberg_does(
    value: PartitionValue, kind: TransformKind, source: pa.DataType, expected: str
) -> None:
    assert human(value, kind, source) == expected


def test_values_that_do_not_match_the_spec_are_a_defect() -> None:
    with pytest.raises(BadPartition, match="2 partition values for 1 fields"):
        partition_folders(plan(pa.int32()), (1, 2))


@pytest.mark.parametrize(
    "name, folder",
    [
        ("sales.orders", "sales-orders"),
        ("w-3_a", "w-3_a"),
        ("bücher", None),
        ("../../evil", None),
        ("a/b c", None),
        ("x" * 300, None),
    ],
)
def test_a_folder_of_a_sink_has_letters_that_every_store_takes(name: str, folder: str | None) -> None:
    made = plain(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,120}", made)
    assert folder in (None, made)
    assert plain(name + "!") != made
