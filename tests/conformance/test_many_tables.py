"""Several tables in one commit, on the servers that have the endpoint: all of them, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from calve import SinkConfig
from calve.model.batch import Batch
from calve.model.errors import Fenced
from calve.protocol.retry import Answer
from calve.runtime.clock import SystemClock
from calve.runtime.coordinator import Coordinator
from calve.runtime.epoch import Epoch
from calve.runtime.start import claim_table
from calve.runtime.together import commit_together
from calve.table.base import Base
from calve.table.build import Attempt, Ready
from calve.table.commit import commits_many, load, send, send_many
from tests.support.backends import Backend
from tests.support.sinks import commit
from tests.support.truth import ordered, rows_of

FIRST = pa.table({"id": [1], "v": ["first"]})
SECOND = pa.table({"id": [2], "v": ["second"]})

on_servers = pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=pytest.mark.servers) for name in ("iceberg-rest", "seaweedfs-oauth2")],
    indirect=True,
)


def tables(backend: Backend) -> list[Backend]:
    """Two tables of one catalog, with a row each."""
    both = [replace(backend, table=name, opened=[]) for name in ("left", "right")]
    for one in both:
        with one.sink() as sink:
            commit(sink, 0, FIRST)
    return both


def attempt(backend: Backend, folder: Path, run: Coordinator) -> tuple[Base, Attempt]:
    """The next batch of a table, written and built, and not sent."""
    config = SinkConfig.from_options(backend.options)
    epoch = Epoch(config, 1, Batch(1, 2), folder, "w0", SystemClock())
    epoch.add(SECOND, run.base, run.refresh)
    prepared = run._prepare([epoch.close_files(run.base)])
    return run.base, run._group_commit(prepared)


def runs(both: list[Backend], backend: Backend) -> list[Coordinator]:
    catalog = backend.catalog()
    return [claim_table(SinkConfig.from_options(one.options), catalog, SystemClock()) for one in both]


@on_servers
def test_two_tables_are_committed_in_one_request(backend: Backend, tmp_path: Path) -> None:
    both = tables(backend)
    catalog = backend.catalog()
    assert commits_many(catalog)
    attempts = [attempt(one, tmp_path, run) for one, run in zip(both, runs(both, backend), strict=True)]
    assert send_many(catalog, attempts).answer is Answer.LANDED
    for one in both:
        assert rows_of(load(catalog, one.identifier)) == ordered(FIRST.to_pylist() + SECOND.to_pylist())


@on_servers
def test_where_one_table_has_moved_on_no_table_is_changed(backend: Backend, tmp_path: Path) -> None:
    both = tables(backend)
    catalog = backend.catalog()
    attempts = [attempt(one, tmp_path, run) for one, run in zip(both, runs(both, backend), strict=True)]
    both[1].insert(pa.table({"id": [9], "v": ["theirs"]}))
    before = [load(catalog, one.identifier).metadata for one in both]
    assert send_many(catalog, attempts).answer is Answer.CONFLICT
    assert [load(catalog, one.identifier).metadata for one in both] == before
    assert send(catalog, *attempts[0]).answer is Answer.LANDED, "it was only held back by the other"


def batches(backend: Backend, folder: Path, run: Coordinator) -> list[Ready]:
    """The next batch of a table, written and not committed."""
    epoch = Epoch(SinkConfig.from_options(backend.options), 1, Batch(1, 2), folder, "w0", SystemClock())
    epoch.add(SECOND, run.base, run.refresh)
    return [epoch.close_files(run.base)]


@on_servers
def test_a_joint_commit_lands_in_all_tables_also_where_one_has_moved_on(
    backend: Backend, tmp_path: Path
) -> None:
    both = tables(backend)
    catalog = backend.catalog()
    coordinators = runs(both, backend)
    parts = [(run, batches(one, tmp_path, run)) for one, run in zip(both, coordinators, strict=True)]
    both[1].insert(pa.table({"id": [9], "v": ["theirs"]}))
    joint = commit_together(coordinators[0]._catalog, parts)
    assert (set(joint.landed), joint.broken) == (set(coordinators), {})
    assert [run.progress.frontier for run in coordinators] == [2, 2]
    ours = FIRST.to_pylist() + SECOND.to_pylist()
    assert rows_of(load(catalog, both[0].identifier)) == ordered(ours)
    assert rows_of(load(catalog, both[1].identifier)) == ordered([*ours, {"id": 9, "v": "theirs"}])
    again = commit_together(coordinators[0]._catalog, parts)
    assert set(again.landed) == set(coordinators), "they are in the tables (P3)"
    assert len(load(catalog, both[0].identifier).metadata.snapshots) == 3 + 1, "a claim each, a commit each"


@on_servers
def test_a_joint_commit_of_a_run_that_was_fenced_changes_no_table(backend: Backend, tmp_path: Path) -> None:
    both = tables(backend)
    catalog = backend.catalog()
    coordinators = runs(both, backend)
    parts = [(run, batches(one, tmp_path, run)) for one, run in zip(both, coordinators, strict=True)]
    claim_table(SinkConfig.from_options(both[1].options), catalog, SystemClock())
    with pytest.raises(Fenced):
        commit_together(coordinators[0]._catalog, parts)
    for one in both:
        assert rows_of(load(catalog, one.identifier)) == ordered(FIRST.to_pylist())


def test_a_catalog_that_is_no_server_commits_to_one_table_at_a_time(tmp_path: Path) -> None:
    from calve.config.catalog import CatalogConfig
    from calve.table.catalogs import open_catalog

    catalog = open_catalog(CatalogConfig(warehouse=str(tmp_path)))
    assert not commits_many(catalog)
    catalog.close()
