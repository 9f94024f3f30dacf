"""Lakes: a catalog is found where its user has it, in a stated order, and never made up by a slip."""

import traceback

import pytest

from calve.config.catalog import CatalogType
from calve.model.errors import BadName, ConfigError
from calve.runtime.spark.lakes import find_lake, parse_name

CANARY = "c4nary-s3cret"
PLUGIN = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """No configuration but what a test writes."""
    for variable in ("PYICEBERG_HOME", "PYICEBERG_CATALOG__LAKE__URI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def session(name="lake", plugin=PLUGIN, **properties):
    found = {f"spark.sql.catalog.{name}.{key.replace('_', '-')}": value for key, value in properties.items()}
    return (
        {"spark.app.name": "x", "spark.sql.catalogImplementation": "in-memory"}
        | found
        | ({f"spark.sql.catalog.{name}": plugin} if plugin else {})
    )


JDBC = session(type="jdbc", uri="jdbc:sqlite:/lake/session.db", warehouse="/lake/w")


def yaml(folder, text):
    (folder / ".pyiceberg.yaml").write_text(text)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name,parts",
    [
        ("lake.sales.orders", ("lake", "sales", "orders")),
        ("sales.orders", ("sales", "orders")),
        ("lake.a.b.orders", ("lake", "a", "b", "orders")),
        ("lake.`my sales`.`a``b`", ("lake", "my sales", "a`b")),
    ],
)
def test_a_name_has_its_parts(name, parts):
    assert parse_name(name) == parts


@pytest.mark.parametrize(
    "name", ["", "orders", "lake..orders", ".a.b", "a.b.", "a.`b", "a`b`.c", "`a`b.c", 5, None]
)
def test_what_is_no_name_of_a_table_is_refused(name):
    with pytest.raises(BadName) as refused:
        parse_name(name)
    assert "lake.sales.orders" in refused.value.hint


def test_the_first_part_is_the_catalog_and_the_last_one_the_table():
    lake = find_lake("lake.a.b.orders", {}, {})
    assert (lake.catalog.name, lake.namespace, lake.table) == ("lake", ("a", "b"), "orders")


# ---------------------------------------------------------------- the order of the places


def test_with_nothing_configured_it_is_sqlite_in_a_local_folder(folder):
    lake = find_lake("lake.sales.orders", {}, {"spark.app.name": "x"})
    assert lake.catalog.is_embedded
    assert (lake.catalog.name, lake.catalog.warehouse) == ("lake", "calve-warehouse")
    assert find_lake("sales.orders", {}, {}).catalog.name == "calve"
    assert find_lake("sales.orders", {}, {}).namespace == ("sales",)
    assert list(folder.iterdir()) == [], "finding a catalog makes none"


def test_the_session_is_asked_last_pyiceberg_before_it_and_the_call_first(folder):
    assert find_lake("lake.s.o", {}, JDBC).catalog.reveal()["uri"] == "sqlite:////lake/session.db"
    yaml(folder, "catalog:\n  lake:\n    uri: sqlite:////lake/pyiceberg.db\n    warehouse: /lake/p\n")
    assert find_lake("lake.s.o", {}, JDBC).catalog.reveal()["uri"] == "sqlite:////lake/pyiceberg.db"
    said = {"name": "lake", "uri": "sqlite:////lake/said.db", "warehouse": "/lake/s"}
    assert find_lake("lake.s.o", said, JDBC).catalog.reveal()["uri"] == "sqlite:////lake/said.db"


def test_a_place_counts_alone(folder):
    yaml(folder, "catalog:\n  lake:\n    uri: sqlite:////lake/p.db\n    warehouse: /p\n    token: x\n")
    said = {"type": "sql", "uri": "sqlite:////lake/said.db", "warehouse": "/s"}
    assert find_lake("lake.s.o", said, JDBC).catalog.reveal() == {
        "uri": "sqlite:////lake/said.db",
        "warehouse": "/s",
    }


def test_the_environment_speaks_for_pyiceberg(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "http://host:8181")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID", CANARY)
    catalog = find_lake("lake.s.o", {}, {}).catalog
    assert catalog.type is CatalogType.REST
    assert catalog.reveal() == {"uri": "http://host:8181", "s3.access-key-id": CANARY}
    assert CANARY not in repr(catalog)


def test_pyicebergs_types_and_nested_settings_are_read(folder):
    yaml(
        folder,
        "catalog:\n"
        "  memory:\n    type: in-memory\n    warehouse: /w\n"
        "  hive:\n    uri: thrift://host:9083\n    warehouse: /w\n"
        "  rest:\n    uri: http://h\n    auth:\n      type: basic\n      basic:\n        password: p\n",
    )
    assert find_lake("memory.s.o", {}, {}).catalog.type is CatalogType.MEMORY
    assert find_lake("hive.s.o", {}, {}).catalog.type is CatalogType.HIVE
    rest = find_lake("rest.s.o", {}, {}).catalog.reveal()
    assert rest == {"uri": "http://h", "auth.type": "basic", "auth.basic.password": "p"}


@pytest.mark.parametrize(
    "text,told",
    [
        ("catalog:\n  lake:\n    type: dynamodb\n", "PyIceberg's configuration"),
        ("catalog:\n  lake:\n    py-catalog-impl: my.Catalog\n", "py-catalog-impl"),
        ("catalog:\n  lake:\n    uri: mysql://h/db\n", "no type"),
        ("catalog:\n  lake:\n    type: sql\n    warehouse: /w\n", "lacks its uri"),
        ("catalog:\n  lake:\n    type: sql\n    uri: sqlite:///c.db\n", "warehouse"),
        (f"catalog: {CANARY}\n", "no mapping"),
        (f"catalog:\n  lake: {CANARY}\n", "no mapping"),
        (f"catalog: [{CANARY}\n", "cannot be read"),
    ],
)
def test_a_configuration_of_pyiceberg_that_cannot_be_used_is_refused_with_its_place(folder, text, told):
    yaml(folder, text)
    with pytest.raises(ConfigError) as refused:
        find_lake("lake.s.o", {}, JDBC)
    assert told in str(refused.value)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_the_session_describes_a_catalog_as_icebergs_runtime_spells_it():
    properties = {"type": "rest", "uri": "http://host", "warehouse": "wh", "credential": f"me:{CANARY}"}
    defaults = {
        "spark.sql.catalog.lake.table-default.owner": "me",
        "spark.sql.catalog.lake.table-override.a": "b",
    }
    lake = find_lake("lake.s.o", {}, session(**properties) | defaults)
    assert lake.catalog.type is CatalogType.REST
    assert lake.catalog.reveal() == {"uri": "http://host", "warehouse": "wh", "credential": f"me:{CANARY}"}
    assert (lake.table_defaults, lake.table_overrides) == ({"owner": "me"}, {"a": "b"})
    assert CANARY not in repr(lake)


def test_the_sessions_own_catalog_is_one_where_iceberg_stands_in_for_it():
    hive = session(
        "spark_catalog", "org.apache.iceberg.spark.SparkSessionCatalog", type="hive", warehouse="/w"
    )
    hive["spark.hadoop.hive.metastore.uris"] = "thrift://host:9083"
    assert find_lake("spark_catalog.s.o", {}, hive).catalog.reveal()["uri"] == "thrift://host:9083"
    plain = {
        "spark.sql.catalog.spark_catalog": "x.DeltaCatalog",
        "spark.sql.catalog.spark_catalog.defaultDatabase": "d",
    }
    assert find_lake("lake.s.o", {}, plain).catalog.is_embedded


def test_a_catalog_of_the_session_that_is_not_icebergs_is_refused():
    with pytest.raises(ConfigError, match=r"x\.UnityCatalog") as refused:
        find_lake("lake.s.o", {}, session(plugin="x.UnityCatalog", token=CANARY))
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "properties,told",
    [
        ({"type": "hadoop", "warehouse": "/w"}, "renaming"),
        ({"type": "jdbc", "warehouse": "/w"}, "lacks its uri"),
        ({"type": "rest"}, "'catalog.uri'"),
        ({"type": "jdbc", "uri": f"jdbc:mysql://h/db?password={CANARY}", "warehouse": "/w"}, "mysql"),
        ({"type": "jdbc", "uri": f"jdbc:postgresql://me:{CANARY}@h/db", "warehouse": "/w"}, "jdbc.user"),
        ({"type": "rest", "uri": f"ftp://me:{CANARY}@h"}, "http"),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/c.db", "warehouse": f"s3://key:{CANARY}@b"}, "login"),
    ],
)
def test_a_catalog_of_the_session_that_cannot_be_used_is_refused_with_its_place(properties, told):
    with pytest.raises(ConfigError) as refused:
        find_lake("lake.s.o", {}, session(**properties))
    assert "spark.sql.catalog.lake.*" in refused.value.message
    assert told in str(refused.value)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


# ---------------------------------------------------------------- slips


def test_a_misspelt_catalog_is_an_error_with_the_nearest_and_never_a_new_lake(folder):
    yaml(folder, "catalog:\n  warm:\n    uri: http://h\n")
    with pytest.raises(ConfigError, match="there are: lake, warm") as refused:
        find_lake("lak.sales.orders", {}, JDBC)
    assert refused.value.hint.startswith("Did you mean lake?")
    assert "type='sql'" in refused.value.hint
    with pytest.raises(ConfigError, match="no catalog 'zzz'"):
        find_lake("zzz.sales.orders", {}, JDBC)


def test_a_table_without_a_catalog_asks_for_one_where_catalogs_are_configured():
    with pytest.raises(ConfigError, match="does not say in which catalog") as refused:
        find_lake("sales.orders", {}, JDBC)
    assert refused.value.hint == "Write lake.sales.orders."


@pytest.mark.parametrize("said,conf", [({"name": "lake"}, {}), ({}, JDBC)])
def test_a_catalog_and_a_table_without_a_namespace_are_refused(said, conf):
    with pytest.raises(BadName, match="no namespace"):
        find_lake("lake.orders", said, conf)


def test_a_catalog_that_was_described_is_the_one_that_the_table_names():
    said = {"name": "lake", "type": "sql", "warehouse": "/w"}
    assert find_lake("sales.orders", said, {}).catalog.name == "lake"
    assert find_lake("lake.sales.orders", said, {}).namespace == ("sales",)
    with pytest.raises(BadName, match="begins with the catalog 'a'") as refused:
        find_lake("a.b.orders", said, {})
    assert "lake.b.orders" in refused.value.hint
    assert "lake.a.b.orders" in refused.value.hint


def test_properties_alone_are_added_to_what_is_configured():
    said = {
        "name": "lake",
        "warehouse": "/other",
        "storage": {"s3.region": "eu"},
        "properties": {"token": CANARY},
    }
    revealed = find_lake("lake.s.o", said, JDBC).catalog.reveal()
    assert revealed == {
        "uri": "sqlite:////lake/session.db",
        "warehouse": "/other",
        "s3.region": "eu",
        "token": CANARY,
    }
    with pytest.raises(ConfigError, match="nothing says what the catalog is"):
        find_lake("lake.s.o", {"name": "lake", "properties": {"token": CANARY}}, {})


def test_a_warehouse_alone_places_the_embedded_catalog():
    assert find_lake("lake.s.o", {"warehouse": "/w"}, {}).catalog.reveal()["uri"] == "sqlite:////w/catalog.db"
    with pytest.raises(ConfigError, match="no catalog 'other'"):
        find_lake("other.s.o", {"warehouse": "/w"}, JDBC)


def test_what_was_said_wrongly_is_refused_with_its_place():
    with pytest.raises(ConfigError, match=r"^\.catalog\('lake'\): ") as refused:
        find_lake("lake.s.o", {"name": "lake", "type": "rest", "uri": f"ftp://me:{CANARY}@h"}, {})
    assert CANARY not in str(refused.value)


# ---------------------------------------------------------------- URLs


def test_a_url_of_another_kind_is_refused_without_its_login_and_its_query():
    with pytest.raises(BadName, match="another kind than iceberg://") as refused:
        find_lake(f"icebrg://me:{CANARY}@h/s/o?catalog.uri=postgresql://me:{CANARY}@h/db", {}, {})
    assert CANARY not in str(refused.value)


def test_a_url_says_where_its_catalog_is_whatever_is_configured(folder):
    yaml(folder, "catalog:\n  lake:\n    uri: http://other:8181\n")
    lake = find_lake("iceberg://localhost:8181/sales.emea/orders?warehouse=w&mode=upsert&key=id", {}, JDBC)
    assert (lake.namespace, lake.table) == (("sales", "emea"), "orders")
    assert lake.catalog.type == CatalogType.REST
    assert lake.catalog.reveal() == {"uri": "http://localhost:8181", "warehouse": "w"}


def test_a_url_and_a_catalog_beside_it_are_a_contradiction():
    with pytest.raises(ConfigError, match="described beside it"):
        find_lake("iceberg://localhost:8181/sales/orders", {"type": "rest", "uri": f"http://{CANARY}"}, {})


def test_how_the_store_is_reached_may_be_said_beside_a_url_and_once():
    """A URL holds no login."""
    url = "iceberg://localhost:8181/sales/orders?storage.s3.region=eu"
    lake = find_lake(url, {"storage": {"s3.secret-access-key": CANARY}}, {})
    assert lake.catalog.reveal() == {
        "uri": "http://localhost:8181",
        "s3.region": "eu",
        "s3.secret-access-key": CANARY,
    }
    with pytest.raises(ConfigError, match=r"the iceberg:// URL says 'storage\.s3\.region'"):
        find_lake(url, {"storage": {"s3.region": "us"}}, {})
