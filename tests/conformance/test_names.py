"""Names that are long, nested or of another script, over every catalog: a table under each can be made,
committed to, and gone on with."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.config.names import NAME_BYTES_MAX
from tests.support.backends import Backend, unique
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


def goes_on(backend: Backend) -> None:
    """A sink makes the table, and the next run of it finds table and progress."""
    with backend.sink() as sink:
        commit(sink, 0, ROWS)
    with backend.sink() as sink:
        assert sink.frontier() == 1
        commit(sink, 1, pa.table({"id": [2], "v": ["B"]}))
    table = backend.load()
    assert tuple(table.name()) == backend.identifier
    assert rows_of(table) == ordered([{"id": 1, "v": "a"}, {"id": 2, "v": "B"}])
    assert backend.identifier in backend.catalog().list_tables(backend.namespace)


@pytest.mark.parametrize("length", [100, NAME_BYTES_MAX])
def test_long_names(backend: Backend, length: int) -> None:
    backend.namespace = (unique("n").ljust(length, "n"),)
    backend.table = "t" * length
    goes_on(backend)


def test_a_unicode_namespace(backend: Backend) -> None:
    backend.namespace = (unique("größe_数据_मात्रा"),)
    backend.table = "таблица"
    goes_on(backend)


def test_a_nested_namespace(backend: Backend) -> None:
    backend.namespace = (unique("a"), "b", "c")
    goes_on(backend)
    assert not backend.catalog().list_tables(backend.namespace[:1])
