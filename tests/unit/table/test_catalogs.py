"""The door to catalogs: what is opened, what is refused, and what is never said."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog

from calve import CatalogConfig, CatalogError, ConfigError
from calve.table.catalogs import open_catalog
from calve.table.fileio import IO_IMPL


def test_the_embedded_default_is_sqlite_beside_the_tables(tmp_path: Path) -> None:
    catalog = open_catalog(CatalogConfig(warehouse=str(tmp_path / "deep" / "lake")))
    assert isinstance(catalog, SqlCatalog)
    assert (tmp_path / "deep" / "lake" / "catalog.db").exists()
    assert catalog.properties["warehouse"] == f"file://{tmp_path}/deep/lake"
    assert catalog.properties["py-io-impl"] == IO_IMPL, "metadata takes the durable way to the disk (case 36)"
    catalog.close()


def test_a_memory_catalog_forgets_and_its_files_are_real(tmp_path: Path) -> None:
    config = CatalogConfig(type="memory", warehouse=str(tmp_path))
    catalog = open_catalog(config)
    assert isinstance(catalog, InMemoryCatalog)
    catalog.create_namespace("ns")
    assert not open_catalog(config).namespace_exists("ns")


def test_a_users_own_file_io_is_left_alone(tmp_path: Path) -> None:
    own = "pyiceberg.io.pyarrow.PyArrowFileIO"
    catalog = open_catalog(CatalogConfig(warehouse=str(tmp_path), properties={"py-io-impl": own}))
    assert catalog.properties["py-io-impl"] == own
    catalog.close()


@pytest.mark.parametrize("kind, uri", [("rest", "http://127.0.0.1:1"), ("hive", "thrift://127.0.0.1:1")])
def test_catalogs_that_cannot_be_opened_yet_are_refused_by_name(tmp_path: Path, kind: str, uri: str) -> None:
    with pytest.raises(ConfigError, match=f"'{kind}'") as caught:
        open_catalog(CatalogConfig(type=kind, uri=uri, warehouse=str(tmp_path)))
    assert "memory, sql" in caught.value.hint


def test_a_driver_that_is_not_there_is_named_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="driver") as caught:
        open_catalog(
            CatalogConfig(uri="postgresql+nosuch://ana:canary@127.0.0.1/db", warehouse=str(tmp_path))
        )
    assert "calve[postgres]" in caught.value.hint
    assert "canary" not in str(caught.value)


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(CatalogError, match="cannot be opened") as caught:
        open_catalog(CatalogConfig(warehouse=str(tmp_path)))
    assert caught.value.hint


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match="cannot be opened"):
        open_catalog(CatalogConfig(warehouse=str(tmp_path / "file" / "lake")))
