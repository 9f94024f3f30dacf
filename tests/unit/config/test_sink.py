"""SinkConfig: defaults, what is refused, and that every fault is one of ours."""

import copy
import pickle

import pytest

from calve.config.catalog import CatalogConfig
from calve.config.parquet import ParquetConfig
from calve.config.sink import Delivery, ForeignRows, Mode, NullKeys, SinkConfig
from calve.model.errors import BadKey, BadName, BadPartition, CalveError, ConfigError, UnknownOption
from calve.model.layout import PartitionField, SortField, Transform, TransformKind

MB = 2**20


def sink(**values):
    return SinkConfig(**{"namespace": "analytics.prod", "table": "orders"} | values)


def test_a_table_is_enough():
    config = sink()
    assert config.identifier == ("analytics", "prod", "orders")
    assert config.table_name == config.sink_id == "analytics.prod.orders"
    assert config.mode is Mode.APPEND
    assert config.delivery is Delivery.EXACTLY_ONCE
    assert config.foreign_rows is ForeignRows.COUNT
    assert config.null_keys is NullKeys.REFUSE
    assert config.target_file_bytes == 128 * MB
    assert (config.buffer_rows_max, config.buffer_ms_max, config.buffer_bytes_max) == (
        100_000,
        60_000,
        64 * MB,
    )
    assert config.memory_bytes_max == 512 * MB
    assert config.catalog.is_embedded
    assert not config.op_column_is_explicit
    assert not config.schema_evolution
    assert str(config) == "SinkConfig(analytics.prod.orders, append, sink analytics.prod.orders)"


def test_the_sinks_id_follows_the_table_and_is_the_same_at_every_start():
    assert sink().sink_id == sink().sink_id
    assert sink().replace(table="other").sink_id == "analytics.prod.other"
    assert sink(sink_id="mine").replace(table="other").sink_id == "mine"
    assert sink(table="заказы").sink_id != sink(table="отказы").sink_id
    with pytest.raises(BadName):
        sink(sink_id="../x")
    with pytest.raises(BadName):
        sink(sink_id="")
    with pytest.raises(ConfigError):
        sink(sink_id=5)


def test_layouts_and_keys_are_read_from_texts_and_lists():
    config = sink(
        namespace=["a", "b"],
        mode="upsert",
        key="id, region",
        sequence_by=["lsn"],
        partition=["day(ts)", "bucket(16, id)"],
        sort="id desc",
        op_column="op",
        table_properties={"write.metadata.metrics.column.token": "counts", "commit.retry.num-retries": 3},
    )
    assert config.namespace == ("a", "b")
    assert config.key == ("id", "region")
    assert config.sequence_by == ("lsn",)
    assert config.partition[1] == PartitionField("id", Transform(TransformKind.BUCKET, 16))
    assert config.sort == (SortField("id", True, False),)
    assert config.op_column_is_explicit
    assert config.table_properties["commit.retry.num-retries"] == "3"


FULL = {
    "mode": "upsert",
    "key": ["id", "my col"],
    "partition": 'day("my col"), bucket(4, id)',
    "sort": "id desc nulls first",
    "table_properties": {"owner": "me"},
    "location": "s3://bucket/orders",
    "spill_folder": "spill",
    "parquet": {"dictionary": ["id"], "compression": "gzip"},
    "memory_bytes_max": 64 * MB,
    "catalog": {"type": "memory"},
}


def test_a_configuration_without_secrets_survives_a_dump_and_a_pickle():
    for config in (sink(), sink(**FULL)):
        assert (
            SinkConfig(**{k: v for k, v in config.describe().items() if k in config.model_fields_set})
            == config
        )
        assert (
            SinkConfig.model_validate_json(config.model_dump_json(include=config.model_fields_set)) == config
        )
        assert SinkConfig.model_validate(config.model_dump(include=config.model_fields_set)) == config
        assert pickle.loads(pickle.dumps(config)) == config
        assert copy.deepcopy(config) == config.model_copy() == config.model_copy(deep=True) == config
        assert hash(config) == hash(config.replace())


def test_a_copy_is_checked_and_the_original_is_frozen():
    config = sink()
    assert config.model_copy(update={"mode": "changelog"}).mode is Mode.CHANGELOG
    with pytest.raises(BadKey):
        config.model_copy(update={"mode": "upsert"})
    with pytest.raises(ConfigError, match="frozen") as refused:
        config.mode = "upsert"
    assert "replace(mode=…)" in refused.value.hint
    with pytest.raises(ConfigError, match="frozen"):
        del config.mode
    assert config == sink()


@pytest.mark.parametrize(
    "values,kind,told",
    [
        ({"mode": "upsert"}, BadKey, "'equality.delete.columns'"),
        ({"key": "id"}, BadKey, "append mode takes no key"),
        ({"mode": "upsert", "key": "id, id"}, BadKey, "'id' twice"),
        ({"mode": "upsert", "key": "id", "sequence_by": "a, a"}, BadKey, "'a' twice"),
        ({"mode": "changelog", "null_keys": "allow"}, BadKey, "no key"),
        ({"sequence_by": "lsn"}, ConfigError, "no effect in append"),
        ({"mode": "changelog", "sequence_by": "lsn"}, ConfigError, "no effect in changelog"),
        ({"inserts_are_new": True}, ConfigError, "no effect"),
        ({"op_column": "op"}, ConfigError, "no effect"),
        ({"changelog_op_column": "x"}, ConfigError, "no effect"),
        ({"mode": "upsert", "key": "id", "changelog_time_column": "x"}, ConfigError, "no effect"),
        ({"mode": "upsert", "key": "id, _op"}, BadKey, "the sink's op_column"),
        ({"mode": "upsert", "key": "id", "partition": "_op"}, BadKey, "partition"),
        ({"mode": "upsert", "key": "id", "sort": "_op"}, BadKey, "sort"),
        ({"mode": "changelog", "sort": "_op"}, BadKey, "sort"),
        ({"mode": "changelog", "key": "_calve_time"}, BadKey, "changelog_time_column"),
        (
            {"mode": "changelog", "changelog_op_column": "x", "changelog_time_column": "x"},
            ConfigError,
            "one name",
        ),
        ({"partition": "dayz(ts)"}, BadPartition, "day"),
        ({"partition": "a, a"}, BadPartition, "both"),
        ({"sort": "a, a"}, BadPartition, "twice"),
        ({"partition": 5}, ConfigError, "int"),
        ({"sort": {"a": "asc"}}, ConfigError, "dict"),
        ({"key": 5, "mode": "upsert"}, ConfigError, "key"),
        ({"key": [5], "mode": "upsert"}, ConfigError, "key"),
        ({"namespace": 5}, ConfigError, "namespace"),
        ({"namespace": ()}, BadName, "empty"),
        ({"namespace": "a..b"}, BadName, "part 2"),
        ({"namespace": "../x"}, BadName, "part 3"),
        ({"table": ""}, BadName, "empty"),
        ({"table": 5}, ConfigError, "table"),
        ({"op_column": "a;b", "mode": "changelog"}, BadName, "a;b"),
        ({"target_file_bytes": 1024}, ConfigError, "target_file_bytes ('target.file.size')"),
        ({"target_file_bytes": 513 * MB}, ConfigError, "at most 512MB"),
        ({"target_file_bytes": True}, ConfigError, "target_file_bytes"),
        ({"buffer_rows_max": 0}, ConfigError, "max.buffer.records"),
        ({"buffer_ms_max": 0}, ConfigError, "max.buffer.duration"),
        ({"buffer_bytes_max": 1024 * MB}, ConfigError, "memory.limit"),
        ({"memory_bytes_max": 1}, ConfigError, "memory_bytes_max"),
        ({"memory_bytes_max": 32 * MB, "parquet": {"row_group_bytes": 64 * MB}}, ConfigError, "memory.limit"),
        ({"commit_attempts_max": 0}, ConfigError, "commit.attempts"),
        ({"commit_timeout_ms": 10}, ConfigError, "commit.timeout"),
        ({"heartbeat": -1}, ConfigError, "heartbeat"),
        ({"schema_evolution": "yes"}, ConfigError, "schema.evolution"),
        ({"mode": "merge"}, ConfigError, "'append', 'changelog' or 'upsert'"),
        ({"location": ""}, ConfigError, "location is empty"),
        ({"location": "s3://k:canary@b/x"}, ConfigError, "login"),
        ({"spill_folder": "a\nb"}, ConfigError, "control"),
        ({"table_properties": {"db.password": "canary"}}, ConfigError, "db.password"),
        ({"table_properties": {"owner": "https://me:canary@host"}}, ConfigError, "owner"),
        ({"table_properties": ["a"]}, ConfigError, "mapping"),
        ({"parquet": {"compression": "lzo"}}, ConfigError, "parquet.compression"),
        ({"parquet": {"compression": 5}}, ConfigError, "parquet.compression"),
        ({"parquet": {"compression_level": 23}}, ConfigError, "1 to 22"),
        ({"parquet": {"compression": "snappy", "compression_level": 1}}, ConfigError, "no levels"),
        ({"parquet": {"dictionary": 5}}, ConfigError, "parquet.dictionary"),
        ({"parquet": {"page_bytes": 1}}, ConfigError, "parquet.page.size"),
        ({"catalog": {"type": "rest"}}, ConfigError, "catalog.uri"),
        ({"catalog": 5}, ConfigError, "catalog"),
    ],
)
def test_what_cannot_be_done_is_refused_with_place_reason_and_hint(values, kind, told):
    with pytest.raises(kind) as refused:
        sink(**values)
    assert told in str(refused.value)
    assert refused.value.hint
    assert "canary" not in str(refused.value)
    assert refused.value.__context__ is None


def test_all_faults_of_a_kind_are_named_at_once():
    with pytest.raises(ConfigError) as refused:
        SinkConfig.model_validate({"mode": "x", "heartbeat": -1, "memory_bytes_max": "y"})
    for place in ("namespace", "table", "mode", "heartbeat", "memory_bytes_max"):
        assert place in refused.value.message
    assert "sink_id" not in refused.value.message
    assert "buffer" not in refused.value.message


def test_an_unknown_setting_is_answered_with_the_nearest_one():
    with pytest.raises(UnknownOption) as refused:
        sink(target_file_byte=1)
    assert "Did you mean target_file_bytes?" in refused.value.hint
    with pytest.raises(UnknownOption) as refused:
        sink(parquet={"zzz": 1})
    assert "parquet.zzz" in refused.value.message
    assert "page_bytes" in refused.value.hint


@pytest.mark.parametrize("text", ["{", "[]", '{"namespace": ["a"], "table": "t", "mode": "x"}'])
def test_json_that_is_no_configuration_is_refused_as_ours(text):
    with pytest.raises(ConfigError):
        SinkConfig.model_validate_json(text)


def test_a_fault_that_has_no_place_is_named_as_such():
    with pytest.raises(CalveError, match="cannot be read"):
        SinkConfig.model_validate(5)


def test_a_changelog_may_be_laid_out_by_the_columns_that_it_adds():
    config = sink(mode="changelog", key="id", sort="_calve_time", partition="_calve_op", null_keys="allow")
    assert config.sort[0].column == config.changelog_time_column
    same = sink(mode="changelog", op_column="_calve_op", sort="_calve_op")
    assert same.op_column == same.changelog_op_column


def test_compression_levels_follow_the_codec():
    assert ParquetConfig().compression_level == 3
    assert ParquetConfig(compression="Uncompressed").compression == "none"
    assert ParquetConfig(compression="snappy").compression_level is None
    assert ParquetConfig(compression="gzip", compression_level=9).compression_level == 9
    assert ParquetConfig(dictionary="a, b").dictionary == ("a", "b")
    assert ParquetConfig(dictionary=False).dictionary is False


def test_the_buffer_is_an_eighth_of_the_memory_unless_said():
    assert sink(memory_bytes_max=64 * MB).buffer_bytes_max == 8 * MB
    assert sink(memory_bytes_max=64 * MB, buffer_bytes_max=MB).buffer_bytes_max == MB


def test_a_catalog_may_be_given_as_a_model():
    catalog = CatalogConfig(type="memory")
    assert sink(catalog=catalog).catalog == catalog
