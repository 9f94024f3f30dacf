"""The doctor: what it finds of connections that are well and of those that are not, and that it cleans up."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table.update import SetSnapshotRefUpdate

import calve
from calve import Outcome, doctor
from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.runtime import doctor as doctoring
from calve.runtime.diagnosis import Found
from calve.store.local import LocalStore
from calve.table.catalogs import open_catalog

NAMES = [
    "connect",
    "list",
    "namespace",
    "table",
    "store",
    "compare-and-swap",
    "tags",
    "clock",
    "clean up",
]


def outcomes(diagnosis: calve.Diagnosis) -> dict[str, Outcome]:
    return {check.name: check.outcome for check in diagnosis.checks}


@pytest.fixture
def config(tmp_path: Path) -> CatalogConfig:
    return CatalogConfig(warehouse=str(tmp_path / "lake"))


def test_a_connection_that_is_well_passes_and_nothing_is_left_behind(config: CatalogConfig) -> None:
    found = doctor(config)
    assert found.ok, str(found)
    assert outcomes(found) == dict.fromkeys(NAMES, Outcome.OK)
    assert "all is well" in str(found)
    assert list(Path(str(config.warehouse)).parent.iterdir()) == []


def test_a_catalog_that_is_there_has_nothing_in_it_afterwards(config: CatalogConfig) -> None:
    with closing(open_catalog(config)) as catalog:
        found = doctor(config)
        assert found.ok, str(found)
        assert catalog.list_namespaces() == []
    left = [file.name for file in Path(str(config.warehouse)).rglob("*") if file.is_file()]
    assert left == ["catalog.db"]


def test_it_takes_options_and_sinks_and_tells_a_program(tmp_path: Path) -> None:
    options = {"warehouse": str(tmp_path), "namespace": "ns", "table.name": "t"}
    for connection in (options, SinkConfig.from_options(options), {"warehouse": str(tmp_path)}):
        told = json.loads(json.dumps(doctor(connection).as_dict()))
        assert told["ok"] is True
        assert [check["name"] for check in told["checks"]] == NAMES


def test_a_namespace_that_is_named_is_used_and_kept(config: CatalogConfig) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("mine")
    assert doctor(config, namespace="mine").ok
    assert catalog.list_namespaces() == [("mine",)]
    assert catalog.list_tables("mine") == []
    missing = doctor(config, namespace="yours")
    assert outcomes(missing)["namespace"] is Outcome.FAILED
    assert "yours" in str(missing)
    catalog.close()


def test_a_catalog_that_is_away_is_told_and_the_rest_is_passed_over(tmp_path: Path) -> None:
    found = doctor(
        {"catalog.type": "rest", "catalog.uri": "http://127.0.0.1:1", "catalog.prop.token": "canary"}
    )
    assert not found.ok
    assert outcomes(found) == {
        "connect": Outcome.FAILED,
        **dict.fromkeys(NAMES[1:-1], Outcome.SKIPPED),
        "clean up": Outcome.OK,
    }
    assert found.checks[0].hint in str(found)
    assert "canary" not in str(found)


def test_a_store_that_cannot_be_written_is_told(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = LocalStore.create

    def full(store: LocalStore, location: str, *, overwrite: bool = False) -> object:
        if "/data/" in location:
            raise calve.StoreError(f"cannot write {location}: no space", hint="Make room.")
        return create(store, location, overwrite=overwrite)

    monkeypatch.setattr(LocalStore, "create", full)
    found = doctor(config)
    assert outcomes(found)["store"] is Outcome.FAILED
    assert outcomes(found)["tags"] is Outcome.SKIPPED
    assert outcomes(found)["clean up"] is Outcome.OK


def test_a_store_that_forbids_deletes_is_a_note(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_: LocalStore, location: str) -> None:
        raise calve.StoreError(f"{location} stays", hint="The store forbids deletes.")

    monkeypatch.setattr(LocalStore, "delete", forbidden)
    found = doctor(config)
    assert outcomes(found)["store"] is Outcome.NOTE
    assert found.ok


def test_a_catalog_that_loses_tags_is_found_out(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqlCatalog.commit_table

    def without_tags(self, table, requirements, updates):
        kept = [one for one in updates if not (isinstance(one, SetSnapshotRefUpdate) and one.type == "tag")]
        return real(self, table, requirements, tuple(kept))

    monkeypatch.setattr("pyiceberg.catalog.sql.SqlCatalog.commit_table", without_tags)
    found = doctor(config)
    assert "fence = 'main'" in str(found)
    assert outcomes(found)["tags"] is Outcome.FAILED
    assert not found.ok


def test_a_catalog_that_takes_both_of_two_commits_is_found_out(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqlCatalog.commit_table

    def careless(self, table, requirements, updates):
        return real(self, table.refresh(), (), updates)

    monkeypatch.setattr("pyiceberg.catalog.sql.SqlCatalog.commit_table", careless)
    found = doctor(config)
    assert outcomes(found)["compare-and-swap"] is Outcome.FAILED
    assert "overwrite one another" in str(found)


def test_what_cannot_be_removed_is_told(config: CatalogConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Catalog, *_: object) -> None:
        raise NotImplementedError("this catalog drops nothing")

    for act in ("purge_table", "drop_table"):
        monkeypatch.setattr(f"pyiceberg.catalog.sql.SqlCatalog.{act}", refused)
    found = doctor(config)
    assert found.checks[-1].outcome is Outcome.NOTE
    assert "left behind" in found.checks[-1].words


def test_a_clock_that_is_off_is_told(config: CatalogConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for skew, outcome in ((30.0, Outcome.OK), (-3600.0, Outcome.FAILED)):
        monkeypatch.setattr(doctoring._Visit, "_use_store", lambda visit, skew=skew: _skewed(visit, skew))
        found = doctor(config)
        assert outcomes(found)["clock"] is outcome
        assert f"{skew:+.1f} s" in str(found)


def _skewed(visit: doctoring._Visit, skew: float) -> Found:
    visit._skews["store"] = skew
    return Found("written")


def test_what_nobody_foresaw_is_told_too_and_cleaned_up(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("canary")

    monkeypatch.setattr("calve.runtime.doctor.read_base", broken)
    found = doctor(config)
    assert outcomes(found)["compare-and-swap"] is Outcome.FAILED
    assert outcomes(found)["clean up"] is Outcome.OK
    assert "canary" not in str(found)


def test_a_login_that_may_not_list_is_enough(config: CatalogConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise ForbiddenError("no right to list")

    monkeypatch.setattr("pyiceberg.catalog.sql.SqlCatalog.list_namespaces", denied)
    found = doctor(config)
    assert outcomes(found)["list"] is Outcome.NOTE
    assert found.ok
