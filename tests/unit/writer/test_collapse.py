"""A batch keeps one change of each key, the last, and refuses to guess which that is (P1, P8)."""

import datetime as dt
import random
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.errors import BadKey, BadRow
from calve.writer import collapse as room
from calve.writer.collapse import collapse, latest
from calve.writer.ops import DELETE, INSERT, NOTHING, OP_COLUMN, UPSERT

Change = dict[str, Any]
KINDS = {
    "id": pa.int64(),
    "part": pa.string(),
    "seq": pa.int64(),
    "sub": pa.string(),
    "v": pa.list_(pa.float64()),
}
SCHEMA = pa.schema([*KINDS.items(), (OP_COLUMN, pa.int8())])


def changes_of(rows: list[Change]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def change(id: int | None, v: float | None = 0.0, op: int = UPSERT, seq: int = 0, **more: Any) -> Change:
    values = None if v is None else [v]
    return {"id": id, "part": None, "seq": seq, "sub": None, "v": values, OP_COLUMN: op} | more


def net(rows: list[Change], key: tuple[str, ...]) -> dict[Any, Change]:
    """The plain model: the last change by arrival."""
    return {tuple(row[name] for name in key): row for row in rows}


changes = st.lists(
    st.builds(
        change,
        st.none() | st.integers(0, 3),
        st.none() | st.sampled_from([0.0, 1.0, 2.0]),
        st.sampled_from([UPSERT, DELETE]),
        st.integers(0, 4),
        part=st.none() | st.sampled_from(["a", "b"]),
        sub=st.sampled_from(["x", "y"]),
    ),
    max_size=30,
)
keys = st.sampled_from([("id",), ("id", "part"), ("part", "id"), ("part",)])


@pytest.fixture(params=[room._PIECE_ROWS, 2], ids=["one piece", "many pieces"], autouse=True)
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds for one piece and for many."""
    monkeypatch.setattr(room, "_PIECE_ROWS", request.param)


class TestByArrival:
    @given(rows=changes, key=keys)
    def test_the_last_change_of_each_key_is_left_in_order_of_arrival(
        self, rows: list[Change], key: tuple[str, ...]
    ) -> None:
        result = collapse(changes_of(rows), key).to_pylist()
        expected = net(rows, key)
        assert net(result, key) == expected
        assert len(result) == len(expected)
        places = [max(place for place, row in enumerate(rows) if row == kept) for kept in result]
        assert places == sorted(places)

    @given(rows=changes, key=keys)
    def test_collapsing_twice_changes_nothing(self, rows: list[Change], key: tuple[str, ...]) -> None:
        once = collapse(changes_of(rows), key)
        assert collapse(once, key).equals(once)

    @given(first=changes, second=changes, key=keys)
    def test_collapsing_in_steps_is_collapsing_at_once(
        self, first: list[Change], second: list[Change], key: tuple[str, ...]
    ) -> None:
        a, b = changes_of(first), changes_of(second)
        for step in (collapse, latest):
            in_steps = collapse(pa.concat_tables([step(a, key), b]), key)
            assert in_steps.equals(collapse(pa.concat_tables([a, b]), key))


promised = st.lists(
    st.builds(
        change, st.integers(0, 3), st.sampled_from([0.0, 1.0]), st.sampled_from([INSERT, UPSERT, DELETE])
    ),
    max_size=30,
)


class TestInsertsThatAreNew:
    """A source that promises that inserts are new needs no delete for a key that begins with one."""

    @given(first=promised, second=promised)
    def test_a_key_is_new_exactly_if_its_first_change_is_an_insert_also_in_steps(
        self, first: list[Change], second: list[Change]
    ) -> None:
        rows = first + second
        begins: dict[int, int] = {}
        for row in rows:
            begins.setdefault(row["id"], row[OP_COLUMN])
        expected = {}
        for (id_,), row in net(rows, ("id",)).items():
            stays = row[OP_COLUMN] > 0
            codes = (INSERT, NOTHING) if begins[id_] == INSERT else (UPSERT, DELETE)
            expected[id_] = codes[0] if stays else codes[1]
        steps = pa.concat_tables([latest(changes_of(first), ("id",)), changes_of(second)])
        for table in (changes_of(rows), steps):
            found = {row["id"]: row[OP_COLUMN] for row in collapse(table, ("id",)).to_pylist()}
            assert found == expected

    def test_a_key_that_was_deleted_before_it_was_inserted_may_have_an_older_row(self) -> None:
        result = collapse(changes_of([change(1, op=DELETE), change(1, op=INSERT)]), ("id",))
        assert result[OP_COLUMN].to_pylist() == [UPSERT]


def model(rows: list[Change], key: tuple[str, ...], sequence: tuple[str, ...]) -> dict[Any, Change] | None:
    """The last change of each key by sequence; None where a tie has no last one."""
    result: dict[Any, Change] = {}
    for identity in net(rows, key):
        mine = [row for row in rows if tuple(row[name] for name in key) == identity]
        top = max(tuple(row[name] for name in sequence) for row in mine)
        tied = [row for row in mine if tuple(row[name] for name in sequence) == top]
        if any(row != tied[0] for row in tied) and any(row[OP_COLUMN] == UPSERT for row in tied):
            return None
        result[identity] = tied[0]
    return result


sequences = st.sampled_from([("seq",), ("seq", "sub"), ("sub", "seq"), ("sub",)])


class TestBySequence:
    @given(rows=changes, key=keys, sequence=sequences)
    def test_case_45_the_last_by_sequence_wins_in_whatever_order_changes_come(
        self, rows: list[Change], key: tuple[str, ...], sequence: tuple[str, ...]
    ) -> None:
        expected = model(rows, key, sequence)
        if expected is None:
            with pytest.raises(BadRow, match="two different changes of key"):
                collapse(changes_of(rows), key, sequence=sequence)
        else:
            result = collapse(changes_of(rows), key, sequence=sequence).to_pylist()
            assert len(result) == len(expected)
            assert net(result, key) == expected

    @given(rows=changes, key=keys, sequence=sequences, cut=st.integers(0, 30))
    def test_the_same_comes_out_however_the_changes_were_cut_up(
        self, rows: list[Change], key: tuple[str, ...], sequence: tuple[str, ...], cut: int
    ) -> None:
        reduced = latest(changes_of(rows[:cut]), key, sequence=sequence)
        joined = pa.concat_tables([reduced, changes_of(rows[cut:])])
        expected = model(rows, key, sequence)
        if expected is None:
            with pytest.raises(BadRow):
                collapse(joined, key, sequence=sequence)
        else:
            assert net(collapse(joined, key, sequence=sequence).to_pylist(), key) == expected

    @given(rows=changes, seed=st.integers(0, 2**32 - 1))
    def test_case_44_duplicates_and_replays_in_any_order_change_nothing(
        self, rows: list[Change], seed: int
    ) -> None:
        distinct = [row | {"seq": place} for place, row in enumerate(rows)]
        replayed = distinct + distinct[: len(distinct) // 2]
        random.Random(seed).shuffle(replayed)
        result = collapse(changes_of(replayed), ("id",), sequence=("seq",)).to_pylist()
        assert net(result, ("id",)) == net(distinct, ("id",))

    def test_a_tie_is_refused_with_key_and_sequence(self) -> None:
        rows = [change(1, seq=5), change(7, 1.0, seq=9), change(7, 2.0, seq=9)]
        with pytest.raises(BadRow, match="key id = 7 share the sequence seq = 9") as refused:
            collapse(changes_of(rows), ("id",), sequence=("seq",))
        assert "Add a column to the sequence" in refused.value.hint

    def test_a_tie_is_refused_with_what_tells_the_two_changes_apart(self) -> None:
        """By then nobody knows the rows' places any more: they can only be found by what they say."""
        wide = pa.table(
            {
                "id": [7, 7],
                "seq": [9, 9],
                "same": ["x", "x"],
                **{f"c{number}": [f"a{number}", f"b{number}"] for number in range(4)},
                OP_COLUMN: pa.array([UPSERT, UPSERT], pa.int8()),
            }
        )
        with pytest.raises(BadRow, match="seq = 9: c0 = a0 or b0, c1 = a1 or b1, c2 = a2 or b2, …"):
            collapse(wide, ("id",), sequence=("seq",))

    def test_an_upsert_and_a_delete_at_one_sequence_are_a_tie(self) -> None:
        rows = [change(7, seq=9), change(7, seq=9, op=DELETE)]
        with pytest.raises(BadRow, match="one is a delete, the other is not"):
            collapse(changes_of(rows), ("id",), sequence=("seq",))

    def test_an_upsert_and_an_insert_at_one_sequence_are_a_tie(self) -> None:
        rows = [change(7, seq=9), change(7, seq=9, op=INSERT)]
        with pytest.raises(BadRow, match="one is an insert of a new key"):
            collapse(changes_of(rows), ("id",), sequence=("seq",))

    def test_two_deletes_at_one_sequence_are_one_delete(self) -> None:
        rows = [change(7, 1.0, seq=9, op=DELETE), change(7, None, seq=9, op=DELETE)]
        assert collapse(changes_of(rows), ("id",), sequence=("seq",)).num_rows == 1

    def test_a_tie_that_is_overtaken_is_no_error(self) -> None:
        rows = [change(7, 1.0, seq=9), change(7, 2.0, seq=9), change(7, 3.0, seq=10)]
        assert collapse(changes_of(rows), ("id",), sequence=("seq",))["v"].to_pylist() == [[3.0]]

    def test_equal_rows_with_nan_are_equal(self) -> None:
        rows = [change(7, float("nan"), seq=9), change(7, float("nan"), seq=9)]
        assert collapse(changes_of(rows), ("id",), sequence=("seq",)).num_rows == 1

    def test_a_null_sequence_is_refused_with_its_key(self) -> None:
        with pytest.raises(BadRow, match="sequence column 'sub' is null or NaN in a change of key id = 3"):
            collapse(changes_of([change(3)]), ("id",), sequence=("seq", "sub"))


# ------------------------------------------------------------------ cases


def test_case_46_insert_and_delete_of_one_key_leave_the_delete() -> None:
    result = collapse(changes_of([change(1), change(1, op=DELETE)]), ("id",))
    assert result[OP_COLUMN].to_pylist() == [DELETE]


def test_case_47_a_key_update_is_a_delete_of_one_key_and_an_insert_of_another() -> None:
    rows = [change(1), change(1, op=DELETE), change(2)]
    assert collapse(changes_of(rows), ("id",)).select(["id", OP_COLUMN]).to_pylist() == [
        {"id": 1, OP_COLUMN: DELETE},
        {"id": 2, OP_COLUMN: UPSERT},
    ]


def test_case_48_a_delete_of_a_key_that_was_never_there_stays_a_delete() -> None:
    assert collapse(changes_of([change(1, op=DELETE)]), ("id",)).num_rows == 1


@pytest.mark.parametrize("sequence", [(), ("seq",)], ids=["arrival", "sequence"])
def test_case_49_a_hundred_thousand_changes_of_one_key_are_one_row(sequence: tuple[str, ...]) -> None:
    count = 100_000
    table = pa.table(
        {
            "id": pa.repeat(pa.scalar(1), count),
            "seq": pa.array(range(count)),
            OP_COLUMN: pa.repeat(pa.scalar(UPSERT, pa.int8()), count),
        }
    )
    assert collapse(table, ("id",), sequence=sequence)["seq"].to_pylist() == [count - 1]


# ------------------------------------------------------------------ types

KEYS: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int32(), 1, 2),
    (pa.string(), "", "a"),
    (pa.binary(), b"", b"\0"),
    (pa.decimal128(38, 10), Decimal("1.5"), Decimal("-1.5")),
    (pa.uuid(), UUID(int=1).bytes, UUID(int=2).bytes),
    (pa.binary(3), b"abc", b"abd"),
    (pa.date32(), dt.date(2026, 1, 1), dt.date(1969, 1, 1)),
    (pa.time64("us"), dt.time(1), dt.time(2)),
    (pa.timestamp("us"), 1, -1),
    (pa.timestamp("us", "UTC"), 1, 2),
    (pa.bool_(), True, False),
]


@pytest.mark.parametrize("kind, one, other", KEYS, ids=lambda value: str(value))
def test_keys_of_every_type_group_and_null_is_a_value(kind: pa.DataType, one: Any, other: Any) -> None:
    column = pa.chunked_array([pa.array([one, None, other], kind), pa.array([one, None], kind)])
    codes = pa.array([UPSERT] * 5, pa.int8())
    table = pa.table({"k": column, "more": ["x", None, "x", "x", None], "n": range(5), OP_COLUMN: codes})
    assert collapse(table, ("k",))["n"].to_pylist() == [2, 3, 4]
    assert collapse(table, ("k", "more"))["n"].to_pylist() == [2, 3, 4]
    assert collapse(table, ("more", "k"), sequence=("n",))["n"].to_pylist() == [2, 3, 4]


ROW_KINDS: list[tuple[pa.DataType, Any, Any]] = [
    *KEYS,
    (pa.float32(), 0.5, 1.5),
    (pa.float64(), float("nan"), 0.0),
    (pa.list_(pa.int64()), [1, None], [1, 2]),
    (pa.list_(pa.int64()), [], [1]),
    (pa.list_(pa.list_(pa.string())), [["a"], None], [["a"], []]),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": None}, {"a": 1, "b": "x"}),
    (pa.map_(pa.string(), pa.float64()), [("k", 1.0)], [("k", 2.0)]),
]


@pytest.mark.parametrize("kind, one, other", ROW_KINDS, ids=lambda value: str(value))
def test_rows_of_every_type_are_told_from_their_copies(kind: pa.DataType, one: Any, other: Any) -> None:
    def at_one_sequence(*values: Any) -> pa.Table:
        count = len(values)
        codes = pa.array([UPSERT] * count, pa.int8())
        return pa.table(
            {"id": [1] * count, "seq": [1] * count, "v": pa.array(values, kind), OP_COLUMN: codes}
        )

    for value in (one, other, None):
        assert collapse(at_one_sequence(value, value, value), ("id",), sequence=("seq",)).num_rows == 1
    for pair in ((one, other), (one, None), (None, other), (one, one, other)):
        with pytest.raises(BadRow):
            collapse(at_one_sequence(*pair), ("id",), sequence=("seq",))


@pytest.mark.parametrize("kind", [pa.uuid(), pa.struct([("a", pa.int64())]), pa.list_(pa.int64())], ids=str)
def test_a_sequence_without_an_order_is_refused_by_name(kind: pa.DataType) -> None:
    changes = pa.schema([("id", pa.int64()), ("s", kind), (OP_COLUMN, pa.int8())]).empty_table()
    with pytest.raises(BadKey, match="the sequence column 's'"):
        latest(changes, ("id",), sequence=("s",))


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.bool_(), pa.int32(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.date32()),
        *(pa.time64("us"), pa.timestamp("us", "UTC"), pa.string(), pa.binary(), pa.binary(1)),
    ],
    ids=str,
)
def test_every_other_type_orders_changes(kind: pa.DataType) -> None:
    low, high = (b"a", b"b") if "binary" in str(kind) else ("a", "b") if kind == pa.string() else (0, 1)
    values = [bool(high), bool(low)] if kind == pa.bool_() else [high, low]
    column = pa.array(values, kind)
    changes = pa.table({"id": [1, 1], "s": column, OP_COLUMN: pa.array([UPSERT] * 2, pa.int8())})
    assert collapse(changes, ("id",), sequence=("s",))["s"].to_pylist() == column.slice(0, 1).to_pylist()
