"""One attempt: what each answer proves, by the type of the error alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    OAuthError,
    ServerError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableResponse
from requests.exceptions import ConnectionError as LostConnection
from requests.exceptions import JSONDecodeError, ReadTimeout
from sqlalchemy.exc import OperationalError

from calve import AccessDenied, CatalogError, IcebergSink, TableError, TableMissing
from calve.model.errors import FileMissing, StoreError
from calve.protocol.retry import Answer
from calve.runtime.health import Health
from calve.table.base import Base, last_sequence, read_base
from calve.table.build import Attempt
from calve.table.commit import load, send
from calve.table.fence import TagFence, read_progress
from calve.table.fileio import StoreFileIO
from tests.support.sinks import NAME, Warehouse, commit
from tests.support.truth import rows_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
LOCKED = OperationalError("update", {}, Exception("database is locked"))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


class Answering:
    """A catalog that answers everything with one error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, _: str) -> Any:
        def answer(*_: object) -> None:
            raise self._error

        return answer


@pytest.fixture
def base(warehouse: Warehouse) -> Base:
    with warehouse.sink() as sink:
        commit(sink, 0, ROWS)
    return read_base(warehouse.load())


def attempt_on(base: Base) -> Attempt:
    progress = read_progress(base.table, "ns.t")
    assert progress is not None
    return Attempt((), (), progress, 1, base.manifests, base.main_summary)


@pytest.mark.parametrize("error", [CommitFailedException("409"), BadRequestError("400")], ids=repr)
def test_the_catalogs_own_no_is_a_conflict(base: Base, error: Exception) -> None:
    """Case 15."""
    sent = send(Answering(error), base, attempt_on(base))  # type: ignore[arg-type]
    assert (sent.answer, sent.base, sent.cause) == (Answer.CONFLICT, None, error)


@pytest.mark.parametrize(
    "error",
    [
        CommitStateUnknownException("500"),
        ServiceUnavailableError("503"),
        ServerError("502"),
        UnauthorizedError("401"),
        NotImplementedError("501"),
        LostConnection("reset"),
        ReadTimeout("no answer"),
        JSONDecodeError("cut", "{", 1),
        LOCKED,
        OSError("disk"),
        StoreError("disk", hint="mend it"),
        ValueError("older than last sequence number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_have_happened_is_unknown(base: Base, error: Exception) -> None:
    """Cases 17 to 23, 26 and 30."""
    sent = send(Answering(error), base, attempt_on(base))  # type: ignore[arg-type]
    assert (sent.answer, sent.cause) == (Answer.UNKNOWN, error)


@pytest.mark.parametrize("error", [ForbiddenError("403"), OAuthError("no token")], ids=repr)
def test_case_27_a_denied_commit_stops_and_keeps_the_files(base: Base, error: Exception) -> None:
    with pytest.raises(AccessDenied, match=r"ns\.t") as caught:
        send(Answering(error), base, attempt_on(base))  # type: ignore[arg-type]
    assert "files are kept" in caught.value.hint


def test_case_28_a_commit_to_a_table_that_is_gone_says_so(base: Base) -> None:
    with pytest.raises(TableMissing):
        send(Answering(NoSuchTableError("404")), base, attempt_on(base))  # type: ignore[arg-type]


def test_an_error_that_nobody_listed_is_a_defect_and_is_raised(base: Base) -> None:
    with pytest.raises(ZeroDivisionError):
        send(Answering(ZeroDivisionError()), base, attempt_on(base))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error, wanted",
    [
        (NoSuchTableError("404"), TableMissing),
        (ForbiddenError("403"), AccessDenied),
        (UnauthorizedError("401"), AccessDenied),
        (OAuthError("401"), AccessDenied),
        (LOCKED, CatalogError),
        (LostConnection("reset"), CatalogError),
        (ServerError("500"), CatalogError),
        (NotImplementedError("501"), CatalogError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_table_that_cannot_be_loaded_is_one_of_our_errors(
    error: Exception, wanted: type[Exception]
) -> None:
    with pytest.raises(wanted, match=r"ns\.t") as caught:
        load(Answering(error), NAME)  # type: ignore[arg-type]
    assert caught.value.__cause__ is error


def test_a_file_that_cannot_be_read_is_said_in_the_stores_own_words() -> None:
    error = StoreError("cannot read metadata.json", hint="mend it")
    with pytest.raises(StoreError, match=r"cannot read metadata\.json"):
        load(Answering(error), NAME)  # type: ignore[arg-type]


def test_what_landed_is_the_base_of_the_next_attempt(warehouse: Warehouse) -> None:
    """The catalog's answer and our own manifests stand for a fresh read of the table."""
    with warehouse.upsert() as sink:
        for epoch in range(3):
            commit(sink, epoch, ROWS)
            ours = _base_of(sink)
            fresh = read_base(warehouse.load())
            assert ours.metadata == fresh.metadata
            by_path = operator.itemgetter("manifest_path")
            assert sorted(ours.manifests, key=by_path) == sorted(fresh.manifests, key=by_path)
            assert ours.main_summary == fresh.main_summary
            assert ours.main == fresh.main
            assert last_sequence(ours.metadata) == last_sequence(fresh.metadata)


def _base_of(sink: IcebergSink) -> Base:
    assert sink._coordinator is not None
    return sink._coordinator.base


def test_a_lost_answer_of_a_landed_commit_is_not_committed_again(warehouse: Warehouse) -> None:
    """P3, cases 18 and 21."""
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        catalog = sink._target.catalog
        assert catalog is not None
        real = catalog.commit_table

        def losing(*arguments: Any) -> Any:
            catalog.commit_table = real  # type: ignore[method-assign]
            real(*arguments)
            raise LostConnection("reset after it was applied")

        catalog.commit_table = losing  # type: ignore[assignment, method-assign]
        result = commit(sink, 1, pa.table({"id": [3], "v": ["c"]}))
        assert result.snapshot_id == warehouse.load().metadata.current_snapshot_id
        assert sink.metrics().unknown_answers == 1
        commit(sink, 2, pa.table({"id": [4], "v": ["d"]}))
    table = warehouse.load()
    assert len(rows_of(table)) == 4
    assert len(table.metadata.snapshots) == 4, "a claim and three epochs"


NO_METADATA: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda _: b"hello",
    "nothing": lambda _: b"",
    "a list": lambda _: b"[]",
    "cut": lambda good: good[: len(good) // 2],
    "no text": lambda _: b"\xff\xfe\x00",
    "another version": lambda good: good.replace(b'"format-version":2', b'"format-version":9'),
    "without columns": lambda _: b'{"format-version": 1}',
    "properties that are none": lambda good: good.replace(b'"properties":{', b'"properties":[],"p":{'),
    "a schema that is not there": lambda good: good.replace(
        b'"current-schema-id":0', b'"current-schema-id":7'
    ),
}


@pytest.mark.parametrize("kind", NO_METADATA)
def test_a_metadata_file_that_is_none_is_named_with_what_to_do(warehouse: Warehouse, kind: str) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
        sink.begin_epoch(1)
        sink.write_batch(ROWS)
        location = warehouse.load().metadata_location
        file = Path(location.removeprefix("file://"))
        good = file.read_bytes()
        file.write_bytes(NO_METADATA[kind](good))
        with pytest.raises(TableError, match="is not the metadata of a table") as caught:
            warehouse.upsert().open()
        assert f"ns.t: {location} is not" in caught.value.message
        assert "register the table anew" in caught.value.hint
        with pytest.raises(TableError, match="is not the metadata of a table"):
            sink.commit_epoch(1)
        assert sink.health_check().health is Health.UNHEALTHY
    file.write_bytes(good)
    with warehouse.upsert() as sink:
        assert sink.frontier() == 1, "nothing was changed"


def test_a_metadata_file_that_is_gone_is_named_with_what_to_do(warehouse: Warehouse) -> None:
    with warehouse.upsert() as sink:
        commit(sink, 0, ROWS)
    location = warehouse.load().metadata_location
    file = Path(location.removeprefix("file://"))
    away = file.rename(file.with_suffix(".away"))
    with pytest.raises(FileMissing) as caught:
        warehouse.upsert().open()
    assert caught.value.message.startswith(f"ns.t: cannot read {location}: No such file")
    assert "was deleted or moved. Restore it" in caught.value.hint
    away.rename(file)
    with warehouse.upsert() as sink:
        assert sink.frontier() == 1, "nothing was changed"


def test_what_is_raised_while_a_file_is_read_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    location = f"file://{tmp_path}/file"
    stream = StoreFileIO().new_input(location).open()
    with pytest.raises(KeyError) as caught, stream:
        raise KeyError(stream.read())
    assert caught.value.__notes__ == [f"while reading {location}"]
    assert stream.closed  # type: ignore[attr-defined]


def test_a_table_without_snapshots_has_an_empty_base(warehouse: Warehouse) -> None:
    warehouse.folder.mkdir()
    with warehouse.catalog() as catalog:
        catalog.create_namespace("ns")
        base = read_base(catalog.create_table(NAME, pa.schema([("id", pa.int64())])))
    assert (base.main, base.manifests, base.main_summary) == (None, (), None)
    assert TagFence("ns.t").find(base.table) is None
    assert last_sequence(base.metadata) == 0


def test_a_success_that_shows_nothing_of_ours_is_unknown(base: Base) -> None:
    """Something on the way answered with the table as it was: a cache, or a redirection that was followed."""

    class Caching:
        def commit_table(self, *_: object) -> CommitTableResponse:
            return CommitTableResponse(metadata=base.metadata, metadata_location=base.table.metadata_location)

    sent = send(Caching(), base, attempt_on(base))  # type: ignore[arg-type]
    assert (sent.answer, sent.base) == (Answer.UNKNOWN, None)
