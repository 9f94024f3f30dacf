"""Wrong secrets: refused by every server that asks for one, soon, with the next step, and not shown (P10)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calve import CatalogError
from calve.model.errors import AccessDenied, CalveError
from tests.support.backends import Backend
from tests.support.places import WRONG
from tests.support.sinks import commit

pytestmark = pytest.mark.servers
SOON_S = 10


def told(error: BaseException | None) -> str:
    """All that an error and what led to it say."""
    words = []
    while error is not None:
        words.append(f"{error!r} {error} {getattr(error, '__notes__', '')}")
        error = error.__cause__ or error.__context__
    return " ".join(words)


def refused(backend: Backend, act: Callable[[Backend], Any], kind: type[CalveError]) -> None:
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        act(backend)
    assert time.monotonic() - started < SOON_S
    assert caught.value.hint
    assert WRONG not in told(caught.value)


def opened(backend: Backend) -> None:
    with backend.sink():
        pass


@pytest.mark.parametrize("login", ["oauth2", "sigv4"])
def test_a_catalog_refuses_a_wrong_secret(seaweedfs: Any, tmp_path: Any, login: str) -> None:
    backend = Backend(login, tmp_path, getattr(seaweedfs, login)(WRONG))
    refused(backend, opened, AccessDenied)


def test_postgresql_refuses_a_wrong_password(postgresql: str, tmp_path: Any) -> None:
    from tests.support.backends import sql_options
    from tests.support.postgres import PASSWORD

    backend = Backend("postgresql", tmp_path, sql_options(postgresql.replace(PASSWORD, WRONG), tmp_path))
    refused(backend, opened, CatalogError)


def test_a_store_refuses_a_wrong_secret_and_nothing_is_committed(seaweedfs: Any, tmp_path: Any) -> None:
    """The catalog takes the login, and the store does not."""
    right = Backend("right", tmp_path, seaweedfs.oauth2())
    with right.sink() as sink:
        commit(sink, 0, pa.table({"id": [1], "v": ["a"]}))
    before = right.load().metadata

    wrong = Backend("wrong", tmp_path, {**seaweedfs.oauth2(), "storage.s3.secret-access-key": WRONG})
    wrong.namespace = right.namespace

    def write(backend: Backend) -> None:
        with backend.sink() as sink:
            commit(sink, 1, pa.table({"id": [2], "v": ["b"]}))

    refused(wrong, write, AccessDenied)
    after = right.load().metadata
    assert after.current_snapshot_id == before.current_snapshot_id
    right.close()


def test_a_login_without_a_secret_is_refused(seaweedfs: Any, tmp_path: Any) -> None:
    options = {k: v for k, v in seaweedfs.oauth2().items() if k != "catalog.prop.credential"}
    refused(Backend("none", tmp_path, options), opened, AccessDenied)
