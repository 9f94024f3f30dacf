"""Op words become op codes, and nothing becomes an insert by accident (P8, case 54)."""

import pyarrow as pa
import pytest

from calve.model.errors import BadRow, SchemaMismatch
from calve.writer.ops import DELETE, INSERT, OP_COLUMN, UPSERT, op_codes, op_words, with_ops, without_promise

INSERT_WORDS = ["I", "+I", "c", "insert"]
UPSERT_WORDS = ["r", "+U", "u", "U", "upsert", "update"]
DELETE_WORDS = ["D", "-D", "-U", "d", "delete"]
WORDS = INSERT_WORDS + UPSERT_WORDS + DELETE_WORDS
CODES = [INSERT] * len(INSERT_WORDS) + [UPSERT] * len(UPSERT_WORDS) + [DELETE] * len(DELETE_WORDS)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_every_known_word_has_its_code_in_every_encoding(kind: pa.DataType) -> None:
    codes = op_codes(pa.array(WORDS).cast(kind), column="_op")
    assert codes.type == pa.int8()
    assert codes.to_pylist() == CODES


def test_words_in_several_chunks_keep_their_order() -> None:
    codes = op_codes(pa.chunked_array([["I"], [], ["d", "u"]]), column="_op")
    assert codes.to_pylist() == [INSERT, DELETE, UPSERT]


def test_without_a_promise_an_insert_is_an_upsert() -> None:
    codes = pa.chunked_array([op_codes(pa.array(["I", "r", "d"]), column="_op")])
    assert without_promise(codes).to_pylist() == [UPSERT, UPSERT, DELETE]


def test_codes_have_our_own_words_in_a_changelog() -> None:
    codes = op_codes(pa.array(["c", "+U", "-U"]), column="_op")
    assert op_words(codes).to_pylist() == ["insert", "upsert", "delete"]


def test_no_rows_have_no_codes() -> None:
    assert len(op_codes(pa.array([], pa.string()), column="_op")) == 0


@pytest.mark.parametrize("word", ["x", "", "INSERT", " I", "TRUNCATE", "+", "é"])
def test_case_54_an_unknown_op_is_refused_with_its_place(word: str) -> None:
    with pytest.raises(BadRow) as refused:
        op_codes(pa.array(["I", "D", word]), column="_op", first_row=1000)
    assert "column '_op', row 1002" in refused.value.message
    assert repr(word) in refused.value.message
    assert "+I" in refused.value.hint
    assert "-U" in refused.value.hint


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_case_54_a_null_op_is_refused_with_its_place(kind: pa.DataType) -> None:
    with pytest.raises(BadRow, match="column '_op', row 1: the op is null"):
        op_codes(pa.array(["I", None]).cast(kind), column="_op")


def test_a_column_of_nothing_but_nulls_is_refused() -> None:
    with pytest.raises(BadRow, match="row 0: the op is null"):
        op_codes(pa.nulls(3), column="_op")


@pytest.mark.parametrize("word, name", [("t", "truncate"), ("m", "message")])
def test_case_51_truncate_and_message_are_refused_by_name(word: str, name: str) -> None:
    with pytest.raises(BadRow) as refused:
        op_codes(pa.array(["c", word]), column="op")
    assert f"the op '{word}' is refused" in refused.value.message
    assert name in refused.value.hint


def test_an_op_that_is_no_text_is_a_mismatch_of_the_schema() -> None:
    with pytest.raises(SchemaMismatch, match="the op column '_op' is double, not text"):
        op_codes(pa.array([1.0, -1.0]), column="_op")


def test_a_long_word_is_cut_in_the_error() -> None:
    with pytest.raises(BadRow) as refused:
        op_codes(pa.array(["x" * 10_000]), column="_op")
    assert len(refused.value.message) < 200


def test_rows_carry_their_codes_beside_their_columns() -> None:
    rows = pa.table({"id": [1, 2]})
    assert with_ops(rows, DELETE).column_names == ["id", OP_COLUMN]
    assert with_ops(rows, DELETE)[OP_COLUMN].to_pylist() == [DELETE, DELETE]
    assert with_ops(rows, op_codes(pa.array(["I", "d"]), column="_op"))[OP_COLUMN].to_pylist() == [
        INSERT,
        DELETE,
    ]


def test_numbers_are_diffs_and_their_sign_is_the_op():
    codes = op_codes(pa.array([1, -1, 7, -3], pa.int64()), column="op")
    assert codes.to_pylist() == [UPSERT, DELETE, UPSERT, DELETE]


@pytest.mark.parametrize("wrong", [0, None])
def test_a_number_that_is_no_diff_is_refused_with_its_row(wrong):
    with pytest.raises(BadRow, match=rf"column 'op', row 11: {wrong} is no diff"):
        op_codes(pa.array([1, wrong], pa.int64()), column="op", first_row=10)
