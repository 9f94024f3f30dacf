"""Which deletes reach which data file, by the letter of the specification."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType

from calve.model.errors import Unreadable
from calve.table import scan as room
from calve.table.live import FileContent, LiveFile
from calve.table.overlap import may_match
from calve.table.scan import PATH_ID, Keys, ScanPlan, plan_files

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "region", StringType()),
)
PLAIN, PARTITIONED = 0, 1


def metadata() -> TableMetadata:
    """A table that was made without partitions and got one later."""
    made = new_table_metadata(SCHEMA, PartitionSpec(spec_id=PLAIN), UNSORTED_SORT_ORDER, "file:///t")
    by_region = PartitionSpec(
        PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="region"),
        spec_id=PARTITIONED,
    )
    return made.model_copy(update={"partition_specs": [PartitionSpec(spec_id=PLAIN), by_region]})


def number(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def data(path: str, sequence: int, region: str | None = None, ids: tuple[int, int] | None = None) -> LiveFile:
    low, high = ({}, {}) if ids is None else ({1: number(ids[0])}, {1: number(ids[1])})
    return LiveFile(
        path,
        FileContent.DATA,
        "PARQUET",
        scope(region),
        sequence,
        10,
        100,
        lower=low,
        upper=high,
        nulls={1: 0},
    )


def keys(
    path: str,
    sequence: int,
    region: str | None = None,
    ids: tuple[int, int] | None = None,
    columns: tuple[int, ...] = (1,),
) -> LiveFile:
    return replace(data(path, sequence, region, ids), content=FileContent.KEYS, equality_ids=columns)


def places(path: str, sequence: int, region: str | None = None, of: str | None = None) -> LiveFile:
    return replace(data(path, sequence, region), content=FileContent.POSITIONS, referenced=of)


def vector(path: str, sequence: int, of: str, offset: int = 4) -> LiveFile:
    return replace(places(path, sequence, of=of), format="PUFFIN", blob=(offset, 40))


def scope(region: str | None) -> tuple[int, tuple[str | None, ...]]:
    return (PLAIN, ()) if region is None else (PARTITIONED, (region,))


def plan(*files: LiveFile) -> ScanPlan:
    return plan_files(files, metadata(), SCHEMA)


def reaching(planned: ScanPlan, path: str) -> set[str]:
    (file,) = (one for one in planned.data if one.path == path)
    return {one.path for one in planned.of(file)}


def test_keys_reach_older_files_alone_and_places_those_of_their_own_number_too():
    planned = plan(
        data("d", 5), keys("k5", 5), keys("k6", 6), places("p4", 4), places("p5", 5), places("p6", 6)
    )
    assert reaching(planned, "d") == {"k6", "p5", "p6"}


def test_keys_reach_their_own_partition_and_without_one_the_whole_table():
    planned = plan(
        data("eu", 1, "eu"), data("us", 1, "us"), data("old", 1), keys("in eu", 2, "eu"), keys("all", 2)
    )
    assert reaching(planned, "eu") == {"in eu", "all"}
    assert reaching(planned, "us") == {"all"}
    assert reaching(planned, "old") == {"all"}
    eu = next(file for file in planned.data if file.path == "eu")
    assert set(planned.of(eu).keys) == {Keys((1,), everywhere=False), Keys((1,), everywhere=True)}


def test_places_of_an_unpartitioned_spec_are_not_global():
    planned = plan(data("eu", 1, "eu"), data("old", 1), places("p", 2))
    assert reaching(planned, "eu") == set()
    assert reaching(planned, "old") == {"p"}


def test_places_of_one_file_reach_that_one():
    both = {PATH_ID: b"a"}
    named = replace(places("by bounds", 2), lower=both, upper=both)
    ranged = replace(places("range", 2), lower={PATH_ID: b"a"}, upper={PATH_ID: b"b"})
    planned = plan(data("a", 1), data("b", 1), data("c", 1), places("said", 2, of="c"), named, ranged)
    assert reaching(planned, "a") == {"by bounds", "range"}
    assert reaching(planned, "b") == {"range"}
    assert reaching(planned, "c") == {"said"}


def test_a_vector_stands_for_all_places_of_its_file_and_no_other():
    planned = plan(data("a", 1), data("b", 1), places("p", 2), vector("v", 3, "a"))
    assert reaching(planned, "a") == {"v"}
    assert reaching(planned, "b") == {"p"}


def test_two_vectors_of_one_puffin_file_are_two():
    planned = plan(data("a", 1), data("b", 1), vector("v", 2, "a", 4), vector("v", 2, "b", 44))
    assert len(planned.deletes) == 2
    assert [planned.of(file).positions[0].blob for file in planned.data] == [(4, 40), (44, 40)]


def test_keys_of_other_values_are_left_out_and_a_file_that_reaches_nothing_is_not_in_the_plan():
    planned = plan(
        data("low", 1, ids=(0, 9)),
        data("high", 1, ids=(10, 19)),
        keys("k", 2, ids=(12, 15)),
        keys("nowhere", 2, ids=(50, 60)),
        keys("too old", 1, ids=(0, 19)),
    )
    assert reaching(planned, "low") == set()
    assert reaching(planned, "high") == {"k"}
    assert [file.path for file in planned.deletes] == ["k"]


@pytest.mark.parametrize("compares", [True, False])
@given(
    files=st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([None, "eu", "us"]), st.integers(0, 3)), max_size=6
    ),
    deletes=st.lists(
        st.tuples(
            st.sampled_from(["keys", "names", "places", "vector"]),
            st.integers(1, 5),
            st.sampled_from([None, "eu", "us"]),
            st.integers(0, 5),
        ),
        max_size=8,
    ),
)
def test_a_plan_is_what_the_specification_says(compares, files, deletes):
    """Read pair by pair. Where bounds are not compared, more may reach, and nothing less."""
    live = [data(f"d{n}", seq, region, (low, low + 2)) for n, (seq, region, low) in enumerate(files)]
    made: list[LiveFile] = []
    for n, (kind, sequence, region, which) in enumerate(deletes):
        target = live[which].path if which < len(live) else None
        if kind == "keys":
            made.append(keys(f"x{n}", sequence, region, (which, which)))
        elif kind == "names":
            made.append(keys(f"x{n}", sequence, region, columns=(2,)))
        elif kind == "places":
            made.append(places(f"x{n}", sequence, region, of=target if which % 2 else None))
        elif target is not None and not any(one.blob and one.referenced == target for one in made):
            made.append(vector(f"x{n}", 5, target))  # a table has one of a file, and it is new
    before = room._PAIRS_MAX
    room._PAIRS_MAX = before if compares else -1
    try:
        planned = plan(*live, *made)
        exact = {file.path: {one.path for one in made if reaches(one, file, made)} for file in live}
        found = {file.path: reaching(planned, file.path) for file in live}
        if compares:
            assert found == exact
        assert all(exact[path] <= found[path] for path in exact)
        assert {one.path for one in planned.deletes} == set().union(*found.values())
    finally:
        room._PAIRS_MAX = before


def reaches(delete: LiveFile, file: LiveFile, others: list[LiveFile]) -> bool:
    if delete.content is FileContent.KEYS:
        near = delete.spec_id == PLAIN or delete.scope == file.scope
        kinds = [(column, SCHEMA.find_field(column).field_type) for column in delete.equality_ids]
        return delete.sequence > file.sequence and near and may_match(delete, file, kinds)
    if delete.sequence < file.sequence:
        return False
    if delete.blob is not None:
        return delete.referenced == file.path
    if any(one.blob is not None and one.referenced == file.path for one in others):
        return False
    return delete.referenced == file.path if delete.referenced is not None else delete.scope == file.scope


@pytest.mark.parametrize(
    "file, words",
    [
        (replace(data("d", 1), format="ORC"), "d is a file of the format ORC, and calve reads Parquet"),
        (replace(keys("k", 1), format="AVRO"), "k is a file of the format AVRO"),
        (replace(data("d", 1), encrypted=True), "d is encrypted"),
        (replace(keys("k", 1), equality_ids=()), "the equality delete k names no columns"),
        (replace(vector("v", 1, "d"), blob=None), "does not say where it is"),
        (keys("k", 1, columns=(99,)), "by a column .id 99. that no schema of the table has any more"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name(file, words):
    with pytest.raises(Unreadable, match=words):
        plan(file)


@pytest.mark.parametrize(
    "kind, delete, seen, meets",
    [
        (LongType(), (1, 5), (5, 9), True),
        (LongType(), (1, 4), (5, 9), False),
        (IntegerType(), (-4, -2), (-3, 9), True),
        (DateType(), (1, 4), (5, 9), True),  # eight bytes are no date: it was something else once
    ],
)
def test_ranges_of_numbers_meet_by_their_values(kind, delete, seen, meets):
    mine, theirs = keys("k", 2, ids=delete), data("d", 1, ids=seen)
    assert may_match(mine, theirs, [(1, kind)]) is meets


def test_a_number_of_four_bytes_meets_one_of_eight():
    narrow = replace(data("d", 1), lower={1: b"\x05\x00\x00\x00"}, upper={1: b"\x07\x00\x00\x00"})
    assert may_match(keys("k", 2, ids=(7, 9)), narrow, [(1, LongType())])
    assert not may_match(keys("k", 2, ids=(8, 9)), narrow, [(1, LongType())])
    assert not may_match(keys("k", 2, ids=(-9, -8)), narrow, [(1, LongType())])


def test_nulls_meet_nulls_and_what_is_not_known_meets_everything():
    text = {2: b"a"}, {2: b"b"}
    mine = replace(keys("k", 2, columns=(2,)), lower=text[0], upper=text[1], nulls={2: 1})
    theirs = replace(data("d", 1), lower={2: b"x"}, upper={2: b"z"}, nulls={2: 3})
    assert may_match(mine, theirs, [(2, StringType())])
    assert not may_match(replace(mine, nulls={2: 0}), theirs, [(2, StringType())])
    assert not may_match(mine, replace(theirs, nulls={2: 0}), [(2, StringType())])
    assert may_match(mine, replace(theirs, nulls={}), [(2, StringType())])
    assert may_match(replace(mine, nulls={2: 0}), replace(theirs, lower={}), [(2, StringType())])
