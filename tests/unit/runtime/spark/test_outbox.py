"""Outbox: batches whose files are closed read back as they were kept, or not at all (cases 3 and 61)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DecimalType, ListType, LongType, NestedField, StringType, StructType

from calve.model.batch import Batch
from calve.model.errors import BadMessage, Diverged
from calve.model.file import ColumnMetrics, FileClosed, FileKind
from calve.model.time import TIME_MAX
from calve.runtime.spark.outbox import Outboxes, from_text, to_text
from calve.table.build import Ready
from calve.table.premises import Premises, SchemaState
from tests.support.checkpoints import MemoryFiles

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "näme", StringType(), doc="with a\nline"),
    NestedField(3, "tags", ListType(4, StructType(NestedField(5, "x", DecimalType(38, 10))))),
    schema_id=3,
    identifier_field_ids=[1],
)
SPECS = st.none() | st.just(PartitionSpec(spec_id=4)) | st.just(
    PartitionSpec(
        PartitionField(1, 1000, BucketTransform(16), "id_bucket"),
        PartitionField(2, 1001, IdentityTransform(), "näme"),
        spec_id=5,
    )
)  # fmt: skip
IDS = st.none() | st.integers(0, 9)
PREMISES = st.builds(
    Premises,
    schema=st.just(SCHEMA),
    evolved_from=st.none() | st.builds(SchemaState, *(st.integers(0, 99),) * 3),
    empty=st.booleans(),
    only_spec=IDS,
    new_spec=IDS,
)
POSITIONS = st.dictionaries(
    st.text(max_size=5), st.none() | st.integers(-(2**70), 2**70) | st.text(max_size=5), max_size=3
)


def file_of(batch: Batch, number: int, kind: FileKind = FileKind.DATA) -> FileClosed:
    return FileClosed(
        batch, "worker", f"file:///w/{batch.upper}/{number}\n{{}}.parquet", kind, 3, 4, (None, "ä\n"), 1, 9,
        ColumnMetrics(value_counts={1: 1}, lower_bounds={1: b"\x00\xff\n"}),
        equality_ids=(1,) if kind is FileKind.EQUALITY_DELETE else (),
    )  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> list[Ready]:
    uppers = sorted(draw(st.sets(st.integers(1, TIME_MAX), min_size=1, max_size=4)))
    ready = []
    for lower, upper in zip([0, *uppers], uppers, strict=False):
        batch = Batch(lower, upper)
        kinds = draw(st.lists(st.sampled_from(FileKind), max_size=3))
        ready.append(
            Ready(
                batch,
                tuple(file_of(batch, number, kind) for number, kind in enumerate(kinds)),
                SCHEMA,
                draw(st.none() | PREMISES),
                draw(st.booleans()),
                draw(SPECS),
                draw(POSITIONS),
            )
        )
    return ready


READY = Ready(
    Batch(0, 10),
    (file_of(Batch(0, 10), 1), file_of(Batch(0, 10), 2, FileKind.EQUALITY_DELETE)),
    SCHEMA,
    Premises(SCHEMA, SchemaState(1, 2, 3), empty=True),
    brings_schema=True,
    positions={"checkpoint": "c", "micro_batch": 4},
)


@given(batches())
def test_batches_read_back_as_they_were_kept(ready: list[Ready]) -> None:
    assert from_text(to_text(ready), "outbox") == tuple(ready)


def test_a_name_is_never_used_twice_and_an_outbox_is_never_changed() -> None:
    files = MemoryFiles()
    boxes = Outboxes(files)
    names = {boxes.put(7, [READY]) for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("calve/outbox/7-") for name in names)
    assert len(files.log) == 20


def test_the_next_run_reads_what_the_last_one_kept() -> None:
    files = MemoryFiles()
    name = Outboxes(files).put(7, [READY])
    assert Outboxes(files.again()).read(name) == (READY,)


def test_what_is_no_longer_named_is_not_kept_in_memory() -> None:
    files = MemoryFiles()
    boxes = Outboxes(files)
    first, second = boxes.put(1, [READY]), boxes.put(2, [READY])
    boxes.forget(frozenset({second}))
    assert list(boxes._known) == [second]
    files.delete(first)
    with pytest.raises(Diverged, match=f"outbox {first} is gone"):
        boxes.read(first)


def test_case_61_an_outbox_that_was_cut_is_refused_wherever_that_was() -> None:
    """Also between two batches: the second would be lost without a word."""
    text = to_text([READY, replace(READY, batch=Batch(10, 20))])
    for end in range(0, len(text), 7):
        with pytest.raises(BadMessage, match="calve/outbox/7"):
            from_text(text[:end], "calve/outbox/7")
    whole = text.splitlines(keepends=True)
    for end in range(len(whole)):
        with pytest.raises(BadMessage, match="calve/outbox/7"):
            from_text("".join(whole[:end]), "calve/outbox/7")


@pytest.mark.parametrize(
    "was, is_now",
    [
        ('"record_count":1', '"record_count":2'),
        ('"upper":"10"', '"upper":"11"'),
        ('"schema-id":3', '"schema-id":4'),
    ],
)
def test_case_61_an_outbox_that_was_changed_is_refused(was: str, is_now: str) -> None:
    text = to_text([READY])
    assert was in text
    with pytest.raises(BadMessage, match="hash"):
        from_text(text.replace(was, is_now), "outbox")


@pytest.mark.parametrize(
    "head", ["null", "[]", '{"version":2}', '{"version":1}', "x", '{"version":1,"schema":7}']
)
def test_an_outbox_that_is_none_is_refused(head: str) -> None:
    with pytest.raises(BadMessage):
        from_text(head + "\n", "outbox")


def test_an_outbox_of_another_release_says_so() -> None:
    head, *rest = to_text([READY]).splitlines()
    newer: dict[str, Any] = {**json.loads(head), "version": 99}
    with pytest.raises(BadMessage, match="another version") as refused:
        from_text("\n".join([json.dumps(newer), *rest]), "outbox")
    assert "another release wrote it" in refused.value.hint
