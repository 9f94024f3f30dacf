"""Options by the names that SQL knows: each is used, or refused by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from calve.config.options.listing import NOT_YET, OPTIONS
from calve.config.options.page import options_page
from calve.config.options.read import read_options
from calve.config.sink import SinkConfig
from calve.model.errors import BadKey, BadName, BadPartition, ConfigError, UnknownOption

TABLE = {"namespace": "iot.sensors", "table.name": "readings"}


def read(options):
    return SinkConfig.from_options(TABLE | options)


def value_of(config, field):
    for name in field.split("."):
        config = getattr(config, name)
    return config


def test_options_are_read_under_their_names():
    config = read(
        {
            "connector": "iceberg",
            "catalog.type": "rest",
            "catalog.uri": "http://catalog:8181",
            "warehouse": "s3://lake/warehouse",
            "partition.spec": "DAYS(event_time), IDENTITY(region), BUCKET(32, device_id)",
            "sort.order": "event_time ASC",
            "target.file.size": "268435456",
            "max.buffer.records": "5",
            "max.buffer.bytes": "1MB",
            "max.buffer.duration": "5m",
            "write.mode": "upsert",
            "equality.delete.columns": "device_id, region",
            "delivery.guarantee": "exactly-once",
            "schema.evolution": "true",
            "file.format": "parquet",
            "writer.id": "w1",
            "catalog.prop.token": "t0ken",
            "catalog.prop.scope": "all",
            "storage.aws_region": "eu-west-1",
            "table.prop.write.metadata.previous-versions-max": 5,
            "parquet.dictionary": "region",
            "parquet.page.size": "64KB",
            "inserts.are.new": True,
        }
    )
    assert config.identifier == ("iot", "sensors", "readings")
    assert config.catalog.reveal()["token"] == "t0ken"
    assert config.catalog.reveal()["scope"] == "all"
    assert config.catalog.reveal()["aws_region"] == "eu-west-1"
    assert [str(field) for field in config.partition] == [
        "day(event_time)",
        "identity(region)",
        "bucket(32, device_id)",
    ]
    assert config.target_file_bytes == 256 * 2**20
    assert (config.buffer_rows_max, config.buffer_bytes_max, config.buffer_ms_max) == (5, 2**20, 300_000)
    assert config.key == ("device_id", "region")
    assert config.delivery == "exactly-once"
    assert config.schema_evolution
    assert config.sink_id == "w1"
    assert config.table_properties["write.metadata.previous-versions-max"] == "5"
    assert config.parquet.dictionary == ("region",)
    assert config.parquet.page_bytes == 65536


def test_the_table_alone_is_enough_and_needs_no_server():
    config = read({})
    assert config.catalog.is_embedded
    assert config.sink_id == "iot.sensors.readings"
    assert read({"catalog.type": "memory", "warehouse": "w"}).catalog.uri is None


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.default], ids=lambda option: option.name
)
def test_every_default_of_the_list_is_the_models_own(option):
    parsed = option.kind.parse(option.default, option.name)
    if option.field:
        assert value_of(read({}), option.field) == parsed


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_names_a_field_of_the_models_and_every_field_has_an_option(option):
    if option.field:
        value_of(read({}), option.field)


def test_every_field_has_an_option():
    named = {option.field for option in OPTIONS}
    config = read({})
    for name in type(config).model_fields:
        inner = getattr(type(getattr(config, name)), "model_fields", None)
        assert {f"{name}.{part}" for part in inner} <= named if inner else name in named


@pytest.mark.parametrize("name", NOT_YET)
@pytest.mark.parametrize("value", ["true", "false", "168h"])
def test_maintenance_options_are_refused_when_they_are_set(name, value):
    with pytest.raises(ConfigError, match="not there yet"):
        read({name: value})


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_other_file_formats_are_refused_by_name(name):
    with pytest.raises(ConfigError, match=name) as refused:
        read({"file.format": name})
    assert "parquet" in refused.value.hint


@pytest.mark.parametrize(
    "name,near",
    [
        ("target.filesize", "target.file.size"),
        ("catalog.url", "catalog.uri"),
        ("Write.Mode", "write.mode"),
        ("partition_spec", "partition.spec"),
        ("target_file_bytes", "target.file.size"),
        ("key", "equality.delete.columns"),
        ("catalog.props.token", "catalog.prop.token"),
        ("storag.region", "storage.region"),
        ("tabel.prop.owner", "table.prop.owner"),
        ("writer-id", "writer.id"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest_right_one(name, near):
    with pytest.raises(UnknownOption) as refused:
        read({name: "canary"})
    assert refused.value.hint == f"Did you mean '{near}'?"
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["zzzzzz", "", "x" * 500])
def test_where_nothing_is_near_the_list_is_named(name):
    with pytest.raises(UnknownOption) as refused:
        read({name: "x"})
    assert "docs/options.md" in refused.value.hint
    assert len(refused.value.message) < 120


@pytest.mark.parametrize("name", ["storage.", "catalog.prop.", "table.prop."])
def test_a_prefix_alone_is_no_option(name):
    with pytest.raises(UnknownOption):
        read({name: "x"})


def test_all_that_is_missing_is_named():
    with pytest.raises(ConfigError, match=r"'namespace' and 'table.name' are missing"):
        read_options({})
    with pytest.raises(ConfigError, match=r"'table.name' is missing"):
        read_options({"namespace": "a"})


@pytest.mark.parametrize(
    "options,kind,told",
    [
        ({"write.mode": "upsert"}, BadKey, "equality.delete.columns"),
        ({"write.mode": "upsrt"}, ConfigError, "'upsert'?"),
        ({"connector": "delta"}, ConfigError, "iceberg"),
        ({"target.file.size": "1KB"}, ConfigError, "'target.file.size'"),
        ({"target.file.size": "big"}, ConfigError, "'target.file.size' cannot be 'big'"),
        ({"max.buffer.duration": "60"}, ConfigError, "60s"),
        ({"schema.evolution": "yes"}, ConfigError, "true or false"),
        ({"equality.delete.columns": "a;b", "write.mode": "upsert"}, BadName, "a;b"),
        ({"partition.spec": "BUKET(16, id)"}, BadPartition, "bucket"),
        ({"namespace": "../x"}, BadName, "namespace"),
        ({"table.name": "a;b"}, BadName, "a;b"),
        ({"table.name": ""}, ConfigError, "'table.name' is empty"),
        ({"catalog.type": "rest"}, ConfigError, "catalog.uri"),
        ({"catalog.type": "nessie"}, ConfigError, "rest, s3table, glue, hive, memory or sql"),
        ({"catalog.uri": "http://nessie:19120/api/v1"}, ConfigError, "http://nessie:19120/iceberg"),
        ({"parquet.compression.level": "high"}, ConfigError, "parquet.compression.level"),
        ({5: "x"}, ConfigError, "int"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_option_and_what_is_taken(options, kind, told):
    with pytest.raises(kind) as refused:
        read(options)
    assert told in str(refused.value)
    assert refused.value.hint


def test_python_values_are_taken_too():
    config = read(
        {"target.file.size": 65536, "partition.spec": ["day(ts)", "region"], "schema.evolution": False}
    )
    assert config.target_file_bytes == 65536
    assert len(config.partition) == 2


def test_the_page_of_options_is_up_to_date():
    page = Path(__file__).parents[3] / "docs" / "options.md"
    assert page.read_text() == options_page(), "run: python -m calve.config.options > docs/options.md"


def test_the_page_is_printed_by_the_module():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "calve.config.options"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == options_page()
    assert all(f"`{option.name}`" in run.stdout for option in OPTIONS)


@pytest.mark.parametrize(
    "option,value,told",
    [
        ("memory.limit", "16MB", "at least 32MB"),
        ("target.file.size", "2GB", "at most 512MB"),
        ("commit.timeout", "10ms", "at least 1s"),
        ("commit.attempts", 0, "at least 1"),
        ("parquet.page.size", 1, "at least 1KB"),
    ],
)
def test_a_value_beyond_a_limit_is_told_the_limit_as_one_would_write_it(option, value, told):
    with pytest.raises(ConfigError, match=told) as refused:
        read({option: value})
    assert option in str(refused.value)
