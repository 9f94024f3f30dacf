"""CatalogConfig: what follows from what, and what is refused before a catalog is asked."""

import pickle

import pytest

from calve.config.catalog import CatalogConfig, CatalogType, embedded_uri
from calve.config.secret import Hidden
from calve.model.errors import BadName, CalveError, ConfigError


def test_with_nothing_said_the_catalog_is_sqlite_in_a_local_folder():
    catalog = CatalogConfig()
    assert catalog.type is CatalogType.SQL
    assert catalog.warehouse == "calve-warehouse"
    assert catalog.reveal() == {
        "uri": "sqlite:///calve-warehouse/catalog.db",
        "warehouse": "calve-warehouse",
    }
    assert catalog.name == "calve"
    assert catalog.is_embedded


@pytest.mark.parametrize(
    "warehouse,uri",
    [
        ("/data/w", "sqlite:////data/w/catalog.db"),
        ("/data/w/", "sqlite:////data/w/catalog.db"),
        ("file:///data/w", "sqlite:////data/w/catalog.db"),
        ("file:/data/w", "sqlite:////data/w/catalog.db"),
        ("../w", "sqlite:///../w/catalog.db"),
    ],
)
def test_an_embedded_catalog_stands_in_its_warehouse_and_moves_with_it(warehouse, uri):
    assert embedded_uri(warehouse) == uri
    assert CatalogConfig(warehouse=warehouse).reveal()["uri"] == uri
    moved = CatalogConfig().replace(warehouse=warehouse)
    assert moved.reveal()["uri"] == uri
    assert moved.is_embedded


@pytest.mark.parametrize("warehouse", ["s3://bucket/w", "/data/what?"])
def test_an_embedded_catalog_needs_a_local_folder(warehouse):
    with pytest.raises(ConfigError, match="embedded"):
        CatalogConfig(warehouse=warehouse)


@pytest.mark.parametrize(
    "said,kind",
    [
        ({"uri": "http://catalog:8181"}, "rest"),
        ({"uri": "sqlite:///w/c.db", "warehouse": "w"}, "sql"),
        ({"uri": "postgresql://host/db", "warehouse": "w"}, "sql"),
        ({"uri": "postgresql+psycopg://host/db", "warehouse": "w"}, "sql"),
        ({"uri": Hidden("https://catalog"), "warehouse": "w"}, "rest"),
        ({"type": "MEMORY"}, "memory"),
        ({"type": "glue", "warehouse": "s3://b/w"}, "glue"),
        ({"type": "glue", "uri": "arn:aws:glue:eu-west-1:1:catalog", "warehouse": "s3://b/w"}, "glue"),
        ({"type": "hive", "uri": "thrift://host:9083", "warehouse": "s3://b/w"}, "hive"),
        ({"type": "hive", "properties": {"thrift_uri": "thrift://host:9083"}, "warehouse": "w"}, "hive"),
        ({"type": None, "uri": None}, "sql"),
    ],
)
def test_the_type_follows_from_the_uri_where_it_is_not_said(said, kind):
    assert CatalogConfig(**said).type == kind


def test_a_catalog_of_its_own_is_not_embedded():
    catalog = CatalogConfig(uri="postgresql://host/db", warehouse="w")
    assert not catalog.is_embedded
    assert catalog.replace(warehouse="v").reveal() == {"uri": "postgresql://host/db", "warehouse": "v"}
    assert not CatalogConfig(type="memory").is_embedded
    assert not CatalogConfig(uri="sqlite:///a.db", warehouse="s3://b/w").is_embedded


@pytest.mark.parametrize(
    "said,lacking",
    [
        ({"type": "rest"}, "'catalog.uri'"),
        ({"type": "hive"}, "'catalog.uri' and 'warehouse'"),
        ({"type": "glue"}, "'warehouse'"),
        ({"uri": "sqlite:///c.db"}, "'warehouse'"),
    ],
)
def test_all_that_a_catalog_lacks_is_named(said, lacking):
    with pytest.raises(ConfigError) as refused:
        CatalogConfig(**said)
    assert refused.value.message.endswith(f"lacks {lacking}")


def test_a_thrift_uri_is_the_uri_of_a_hive_metastore():
    said = {"type": "hive", "properties": {"thrift_uri": "thrift://host:9083"}, "warehouse": "w"}
    catalog = CatalogConfig(**said)
    assert catalog.reveal()["uri"] == "thrift://host:9083"
    assert catalog.replace(warehouse="v").uri == catalog.uri
    assert CatalogConfig(**said, uri="thrift://host:9083") == catalog
    with pytest.raises(ConfigError, match="two metastores"):
        CatalogConfig(**said, uri="thrift://other:9083")
    with pytest.raises(ConfigError, match="cannot stand at http"):
        CatalogConfig(type="hive", properties={"thrift_uri": "http://host"}, warehouse="w")


@pytest.mark.parametrize("version", ["v1", "v2", "v2/"])
def test_nessies_own_interface_gets_the_hint_where_its_rest_door_is(version):
    with pytest.raises(ConfigError) as refused:
        CatalogConfig(type="rest", uri=f"http://nessie:19120/api/{version}")
    assert "http://nessie:19120/iceberg" in refused.value.hint


@pytest.mark.parametrize(
    "said",
    [
        {"type": "rest", "uri": "thrift://host"},
        {"type": "rest", "uri": "host:8181"},
        {"type": "sql", "uri": "mysql://host/db", "warehouse": "w"},
        {"type": "sql", "uri": "postgres://host/db", "warehouse": "w"},
        {"type": "sql", "uri": "sqlite://", "warehouse": "w"},
        {"type": "sql", "uri": "sqlite:///:memory:", "warehouse": "w"},
        {"type": "sql", "uri": "/no/scheme", "warehouse": "w"},
        {"type": "memory", "uri": "sqlite:///c.db"},
        {"type": "nessie"},
        {"type": 5},
        {"uri": 5},
        {"uri": " "},
        {"uri": "http://a\nb"},
        {"warehouse": ""},
        {"warehouse": "a\tb"},
        {"warehouse": 5},
        {"properties": ["a"]},
        {"properties": {"a": None}},
        {"properties": {5: "a"}},
        {"storage": {"region": b""}},
        {"kind": "sql"},
    ],
)
def test_what_cannot_be_a_catalog_is_refused_with_a_hint(said):
    with pytest.raises(ConfigError) as refused:
        CatalogConfig(**said)
    assert refused.value.hint


def test_the_catalogs_own_name_is_checked_too():
    with pytest.raises(BadName):
        CatalogConfig(name="../x")


@pytest.mark.parametrize(
    "warehouse",
    [
        "s3://AKIA:canary@bucket/w",
        "s3://canary@bucket/w",
        "s3://user:ca/nary@bucket",
        "s3://bucket/w?secret=canary",
        "abfss://container:canary@account/w",
    ],
)
def test_a_login_in_a_warehouse_is_refused_because_the_metadata_would_show_it(warehouse):
    with pytest.raises(ConfigError) as refused:
        CatalogConfig(type="rest", uri="http://c", warehouse=warehouse)
    assert "canary" not in str(refused.value)
    assert "storage." in refused.value.hint


@pytest.mark.parametrize(
    "warehouse", ["abfss://container@account.dfs/w", "hdfs://node:8020/a@b", "/data/a@b", "w"]
)
def test_an_at_sign_that_is_no_login_is_fine(warehouse):
    assert CatalogConfig(type="rest", uri="http://c", warehouse=warehouse).warehouse == warehouse


def test_revealing_gives_everything_to_the_door():
    catalog = CatalogConfig(
        type="rest",
        uri="http://c",
        properties={"token": "t0ken"},
        storage={"s3.region": "eu", "s3.port": 9000},
    )
    assert catalog.reveal() == {"uri": "http://c", "token": "t0ken", "s3.region": "eu", "s3.port": "9000"}
    assert CatalogConfig(type="glue", warehouse="s3://b").reveal() == {"warehouse": "s3://b"}
    assert catalog.model_dump()["storage"] == {"s3.region": "eu", "s3.port": "***"}


def test_a_catalog_is_a_value():
    one, other = CatalogConfig(storage={"region": "eu"}), CatalogConfig(storage={"region": "eu"})
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert CatalogConfig.model_validate(one) is one


def test_something_that_is_no_catalog_is_refused():
    with pytest.raises(CalveError):
        CatalogConfig.model_validate(5)
