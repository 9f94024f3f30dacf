"""Iceberg's Spark properties in PyIceberg's words: each is read, left out by rule, or refused by name."""

import re
from pathlib import Path

import pyiceberg
import pytest

from calve.model.errors import ConfigError
from calve.runtime.spark.page import catalogs_page
from calve.runtime.spark.translate import RULES, Act, from_spark, rule_of
from calve.store.known import KNOWN

CLASS = "org.apache.iceberg"


@pytest.mark.parametrize(
    "spark,kind",
    [
        ({"type": "jdbc", "uri": "jdbc:sqlite:/c.db"}, "sql"),
        ({"type": "rest", "uri": "http://host"}, "rest"),
        ({"type": "REST", "uri": "http://host"}, "rest"),
        ({"type": "hive", "uri": "thrift://host:9083"}, "hive"),
        ({"type": "glue"}, "glue"),
        ({}, "hive"),
        ({"catalog-impl": f"{CLASS}.rest.RESTCatalog"}, "rest"),
        ({"catalog-impl": f"{CLASS}.aws.glue.GlueCatalog"}, "glue"),
        ({"catalog-impl": f"{CLASS}.jdbc.JdbcCatalog", "uri": "jdbc:sqlite:/c.db"}, "sql"),
        ({"catalog-impl": f"{CLASS}.hive.HiveCatalog"}, "hive"),
    ],
)
def test_the_type_is_pyicebergs(spark, kind):
    assert from_spark(spark).type == kind


@pytest.mark.parametrize(
    "spark,told",
    [
        ({"type": "hadoop", "warehouse": "/w"}, "renaming a file"),
        ({"catalog-impl": f"{CLASS}.hadoop.HadoopCatalog"}, "renaming a file"),
        ({"type": "nessie"}, "19120/iceberg"),
        ({"type": "bigquery"}, "REST"),
        ({"type": "glu"}, "Did you mean glue?"),
        ({"type": "zzz"}, "one of jdbc, rest, hive, glue"),
        ({"catalog-impl": "com.example.MyCatalog"}, "com.example.MyCatalog"),
        ({"type": "rest", "rest.auth.type": "com.example.Auth"}, "only Java"),
    ],
)
def test_a_catalog_that_python_cannot_open_is_refused_with_the_reason_and_a_way_out(spark, told):
    with pytest.raises(ConfigError) as refused:
        from_spark(spark)
    assert told in str(refused.value)
    assert refused.value.hint


def test_a_jdbc_catalog_gets_the_database_and_the_login():
    described = from_spark(
        {
            "type": "jdbc",
            "uri": "jdbc:postgresql://host/db",
            "jdbc.user": "me",
            "jdbc.password": "secret",
            "jdbc.sslmode": "require",
            "jdbc.schema-version": "V0",
            "jdbc.strict-mode": "true",
            "jdbc.init-catalog-tables": "false",
            "warehouse": "s3://bucket/w",
        }
    )
    assert described.uri == "postgresql://me:secret@host/db?sslmode=require"
    assert described.warehouse == "s3://bucket/w"
    assert described.properties == {"init_catalog_tables": "false"}


def test_a_setting_of_the_jdbc_driver_that_python_has_not_is_refused():
    with pytest.raises(ConfigError, match="sslfactory"):
        from_spark({"type": "jdbc", "uri": "jdbc:postgresql://host/db", "jdbc.sslfactory": "x"})


def test_a_rest_catalog_keeps_its_names():
    said = {
        "credential": "client:secret",
        "token": "t0ken",
        "oauth2-server-uri": "http://auth",
        "scope": "all",
        "audience": "a",
        "resource": "r",
        "prefix": "p",
        "header.X-Tenant": "me",
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu-west-1",
        "rest.signing-name": "glue",
        "something-new": "x",
    }
    described = from_spark({"type": "rest", "uri": "http://host", "warehouse": "wh", **said})
    assert described.properties == said
    assert (described.uri, described.warehouse) == ("http://host", "wh")


@pytest.mark.parametrize(
    "login,properties",
    [
        ({"rest.auth.type": "none"}, {}),
        ({"rest.auth.type": "oauth2", "token": "t"}, {"token": "t"}),
        ({"rest.auth.type": "sigv4"}, {"rest.sigv4-enabled": "true"}),
        ({"rest.auth.type": "google"}, {"auth.type": "google"}),
        (
            {
                "rest.auth.type": "basic",
                "rest.auth.basic.username": "me",
                "rest.auth.basic.password": "secret",
            },
            {"auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "secret"},
        ),
    ],
)
def test_a_rest_login_is_pyicebergs(login, properties):
    assert from_spark({"type": "rest", "uri": "http://host", **login}).properties == properties


def test_object_stores_get_their_login_under_pyicebergs_names():
    described = from_spark(
        {
            "type": "glue",
            "warehouse": "s3://b/w",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": "http://minio:9000",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.session-token": "token",
            "s3.path-style-access": "true",
            "s3.multipart.part-size-bytes": "1",
            "client.region": "eu-west-1",
            "client.assume-role.arn": "arn:aws:iam::1:role/x",
            "client.assume-role.session-name": "me",
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.credentials-provider": "software.amazon.awssdk.DefaultCredentialsProvider",
            "adls.auth.shared-key.account.name": "account",
            "adls.auth.shared-key.account.key": "key",
            "adls.sas-token.account.dfs": "sas",
            "adls.connection-string.account": "c",
            "gcs.oauth2.token": "token",
            "glue.id": "123",
        }
    )
    assert described.storage == {
        "s3.endpoint": "http://minio:9000",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.session-token": "token",
        "s3.force-virtual-addressing": "false",
        "s3.multipart.part-size-bytes": "1",
        "client.region": "eu-west-1",
        "client.role-arn": "arn:aws:iam::1:role/x",
        "client.role-session-name": "me",
        "adls.account-name": "account",
        "adls.account-key": "key",
        "adls.sas-token.account.dfs": "sas",
        "adls.connection-string": "c",
        "gcs.oauth2.token": "token",
    }
    assert described.properties == {"glue.id": "123"}


def test_virtual_addressing_is_the_opposite_of_path_style():
    described = from_spark({"type": "glue", "s3.path-style-access": "false"})
    assert described.storage == {"s3.force-virtual-addressing": "true"}


def test_tables_get_what_the_catalog_asks_of_them():
    described = from_spark({"type": "glue", "table-default.owner": "me", "table-override.write.x": "y"})
    assert described.table_properties == {"owner": "me"}
    assert described.table_overrides == {"write.x": "y"}


def test_a_hive_catalog_without_a_uri_is_the_sessions_metastore():
    assert from_spark({"type": "hive"}, metastore="thrift://a:9083,thrift://b:9083").uri == "thrift://a:9083"
    assert (
        from_spark({"type": "hive", "uri": "thrift://c:9083"}, metastore="thrift://a:9083").uri
        == "thrift://c:9083"
    )
    assert from_spark({"type": "rest"}, metastore="thrift://a:9083").uri is None


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.act is Act.REFUSED], ids=lambda rule: rule.spark
)
def test_what_would_be_lost_is_refused_by_name_and_its_value_is_not_shown(rule):
    name = rule.spark.replace("*", "canary")
    with pytest.raises(ConfigError) as refused:
        from_spark({"type": "rest", name: "c4nary"})
    assert name in refused.value.message
    assert rule.note in refused.value.message
    assert "c4nary" not in str(refused.value)
    for value in rule.unless:
        described = from_spark({"type": "rest", name: f"x{value}" if value.startswith(".") else value})
        assert (described.properties, described.storage) == ({}, {})


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.act is Act.LEFT], ids=lambda rule: rule.spark
)
def test_what_only_tunes_spark_is_left_out(rule):
    described = from_spark({"type": "rest", rule.spark.replace("*", "x"): "y"})
    assert (described.properties, described.storage, described.uri) == ({}, {}, None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.spark)
def test_every_line_of_the_list_can_be_reached(rule):
    """A line behind one that covers it would say what never happens."""
    assert rule_of(rule.spark.replace("*", "zzz")) == rule


def test_every_name_that_is_given_is_known():
    """A property that nobody knows is ignored: a name that is wrong would be lost in silence."""
    # Read, not imported: the module of Glue needs a client that is not installed here.
    folder = Path(pyiceberg.__file__).parent
    modules = ("io/__init__", "catalog/__init__", "catalog/rest/__init__", "catalog/glue", "catalog/sql")
    sources = [(folder / f"{module}.py").read_text("utf-8") for module in modules]
    known = {name for source in sources for name in re.findall(r'"([^"\s]+)"', source)}
    # These it reads by their beginnings, or out of a nested setting.
    known |= {"header.*", "adls.sas-token.*", "auth.basic.username", "auth.basic.password"}
    known |= {*KNOWN, "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"}  # our own doors'
    given = {
        name for rule in RULES if rule.act in (Act.SAME, Act.RENAMED) for name in rule.pyiceberg.split(", ")
    }
    assert given - known == set()


def test_the_page_is_made_from_the_list():
    page = Path(__file__).parents[4] / "docs" / "spark-catalogs.md"
    told = "run: python -m calve.runtime.spark.page > docs/spark-catalogs.md"
    assert page.read_text("utf-8") == catalogs_page(), told
