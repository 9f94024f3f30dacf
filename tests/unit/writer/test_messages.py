"""Messages: what tasks say comes together as what one task would have said; rows never go this way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.model.batch import Batch
from calve.model.errors import BadMessage, BadRow
from calve.model.file import FileClosed, FileKind
from calve.writer.messages import SCHEMA, SPARK_SCHEMA, Counts, Report

COUNTS = st.builds(Counts, *(st.integers(0, 2**40),) * 4)


def closed(name: str) -> FileClosed:
    return FileClosed(Batch(0, 10), "w", f"file:///{name}.parquet", FileKind.DATA, 0, 0, ("ä\n",), 1, 9)


def said(*reports: Report) -> list[tuple[str, str]]:
    return [
        (row["kind"], row["body"])
        for report in reports
        for batch in report.to_rows()
        for row in batch.to_pylist()
    ]


@given(st.lists(st.tuples(st.lists(st.text("ab", max_size=3)), st.lists(st.text("cd", max_size=3)), COUNTS)))
def test_all_tasks_together_say_what_each_of_them_said(tasks) -> None:
    reports = [
        Report(tuple(map(closed, files)), tuple(map(closed, bad)), Counts(**_fields(counts)))
        for files, bad, counts in tasks
    ]
    whole = Report.of(said(*reports))
    assert list(whole.files) == [file for report in reports for file in report.files]
    assert list(whole.quarantined) == [file for report in reports for file in report.quarantined]
    assert whole.counts.rows == sum(report.counts.rows for report in reports)
    assert whole.counts.late == sum(report.counts.late for report in reports)
    assert whole.refused is None


def _fields(counts: Counts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ("rows", "replayed", "late", "quarantined")}


def test_a_task_that_wrote_no_file_still_tells_its_counts() -> None:
    (batch,) = Report((), (), Counts(rows=3, replayed=3)).to_rows()
    assert batch.schema == SCHEMA
    assert batch.num_rows == 1
    assert Report.of(said(Report((), (), Counts(rows=3, replayed=3)))).counts == Counts(3, 3)


def test_no_task_at_all_is_a_report_of_nothing() -> None:
    assert Report.of([]) == Report((), (), Counts())


def test_a_row_that_was_refused_is_told_with_its_hint_and_the_first_one_stays() -> None:
    first, second = BadRow("row 7 of ä", hint="Fill it."), BadRow("row 9", hint="Drop it.")
    whole = Report.of(said(Report((closed("a"),), (), Counts(1), first), Report((), (), Counts(1), second)))
    assert whole.refused is not None
    assert (whole.refused.message, whole.refused.hint) == ("row 7 of ä", "Fill it.")


def test_a_message_of_a_newer_release_is_not_overheard() -> None:
    with pytest.raises(BadMessage, match="kind 'vector'") as refused:
        Report.of([("vector", "{}")])
    assert "install the same one" in refused.value.hint


@pytest.mark.parametrize("body", ["", "{", '{"rows": 1, "more": 2}', "[]", "7"])
def test_counts_of_another_release_are_a_bad_message_too(body: str) -> None:
    with pytest.raises(BadMessage):
        Report.of([("counts", body)])


def test_a_file_s_message_that_was_cut_is_refused() -> None:
    with pytest.raises(BadMessage):
        Report.of([("file", closed("a").to_json()[:-2])])


def test_spark_is_told_the_same_columns_that_tasks_send() -> None:
    assert ", ".join(f"{field.name} {field.type}" for field in SCHEMA) == SPARK_SCHEMA


def test_case_61_messages_are_json() -> None:
    for _, body in said(Report((closed("a"),), (closed("b"),), Counts(1), BadRow("x", hint="y"))):
        json.loads(body)
