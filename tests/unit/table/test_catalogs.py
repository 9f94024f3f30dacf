"""The door to catalogs: what is opened, what is refused, and what is never said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog

from calve import CatalogConfig, CatalogError, ConfigError
from calve.store.access import ALIASES, Access
from calve.table.catalogs import open_catalog
from calve.table.catalogs.properties import file_properties
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


def test_all_threads_see_the_same_memory_catalog(tmp_path: Path) -> None:
    """Spark calls a sink from a thread of its own."""
    catalog = open_catalog(CatalogConfig(type="memory", warehouse=str(tmp_path)))
    with ThreadPoolExecutor(1) as other:
        other.submit(catalog.create_namespace, "ns").result()
        assert other.submit(catalog.namespace_exists, "ns").result()
    assert catalog.namespace_exists("ns")
    catalog.close()


@pytest.mark.parametrize("kind", ["aws_access_key_id", "aws_region"])
def test_a_store_has_a_login_of_its_own_where_the_catalogs_is_spelt_alike(tmp_path: Path, kind: str) -> None:
    config = CatalogConfig(
        type="memory", warehouse=str(tmp_path), properties={kind: "catalog"}, storage={kind: "store"}
    )
    found = file_properties(config)
    assert found[kind] == "catalog"
    assert dict(Access.of(found).settings)[ALIASES[kind]] == "store"


def test_a_file_io_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Data files would go one way and metadata another."""
    own = "pyiceberg.io.pyarrow.PyArrowFileIO"
    with pytest.raises(ConfigError, match="py-io-impl"):
        open_catalog(CatalogConfig(warehouse=str(tmp_path), properties={"py-io-impl": own}))


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
