"""Names that are long, nested or of another script, over every catalog.

A table under each can be made, committed to and gone on with; or the name is refused, and nothing was made.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve import CatalogError
from calve.config.names import NAME_BYTES_MAX
from calve.model.errors import BadName
from tests.support.backends import Backend, unique
from tests.support.servers.known import NAMES_REFUSED
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of

ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


def check(backend: Backend, kind: str) -> None:
    if (backend.name, kind) not in NAMES_REFUSED:
        goes_on(backend)
        return
    with pytest.raises((BadName, CatalogError)) as caught:
        goes_on(backend)
    assert caught.value.hint
    assert backend.namespace[:1] not in backend.catalog().list_namespaces()


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
    for level in range(1, len(backend.namespace)):
        assert not backend.catalog().list_tables(backend.namespace[:level])


@pytest.mark.parametrize("length", [100, NAME_BYTES_MAX])
def test_long_names(backend: Backend, length: int) -> None:
    backend.namespace = (unique("n").ljust(length, "n"),)
    backend.table = "t" * length
    check(backend, f"{length} bytes")


def test_a_unicode_namespace(backend: Backend) -> None:
    backend.namespace = (unique("größe_数据_मात्रा"),)
    backend.table = "таблица"
    check(backend, "unicode")


def test_a_nested_namespace(backend: Backend) -> None:
    backend.namespace = (unique("a"), "b", "c")
    check(backend, "nested")
