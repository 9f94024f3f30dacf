"""StreamConfig: how a stream tells time, and which settings contradict one another."""

import pickle

import pytest

from calve.config.sink import SinkConfig
from calve.config.stream import BadRows, FrontierKind, StreamConfig
from calve.model.errors import BadKey, BadName, CalveError, ConfigError, UnknownOption
from calve.model.time import TIME_MAX

OLD = "4e0f2a1c-9d5b-4f0e-8c57-0d3e8a9b1c2d"
TABLE = {"namespace": "sales", "table": "orders"}
UPSERT = SinkConfig(**TABLE, mode="upsert", key="id", sequence_by="ts, lsn")
UNORDERED = SinkConfig(**TABLE, mode="upsert", key="id")
CHANGELOG = SinkConfig(**TABLE, mode="changelog", key="id")
APPEND = SinkConfig(**TABLE)
MARK = {"time_column": "ts", "frontier": "mark", "mark_column": "resolved"}
MAXIMUM = {"time_column": "ts", "frontier": "maximum"}


def stream(sink=APPEND, **values):
    return StreamConfig(sink=sink, checkpoint="/checkpoints/orders", **values)


def test_a_stream_that_says_nothing_of_time_has_micro_batches_as_batches():
    config = stream()
    assert config.frontier is FrontierKind.NONE
    assert config.time_column is None
    assert config.commit_interval is None
    assert config.on_bad_row is BadRows.FAIL
    assert config.bad_rows_max == 10_000
    assert config.source == "micro-batch"
    assert str(config) == "StreamConfig(sales.orders, append, times by micro-batch)"
    assert StreamConfig(sink=APPEND).checkpoint is None


@pytest.mark.parametrize("sink", [APPEND, CHANGELOG, UPSERT], ids=str)
@pytest.mark.parametrize(
    "values",
    [
        MAXIMUM | {"frontier_delay": 10_000_000},
        MAXIMUM,
        {"time_column": "ts", "frontier": "Watermark"},
        MARK,
        MARK | {"partition_column": "p", "partitions": 4},
    ],
    ids=str,
)
def test_every_way_to_tell_time_goes_with_every_mode(sink, values):
    config = stream(sink, **values, commit_interval=60_000_000)
    assert config.source == "column ts"
    assert config.frontier == values["frontier"].lower()
    assert config.commit_interval == 60_000_000


def test_times_may_be_as_long_as_times_are():
    assert stream(**MAXIMUM, frontier_delay=TIME_MAX).frontier_delay == TIME_MAX
    assert stream(**MAXIMUM, commit_interval=10**37).commit_interval == 10**37
    with pytest.raises(ConfigError):
        stream(**MAXIMUM, commit_interval=TIME_MAX + 1)


def test_marks_and_ops_are_no_data_and_partitions_and_times_are():
    marked = MARK | {"partition_column": "p", "partitions": 4}
    assert stream(UPSERT, **marked).columns_taken_off == {"resolved", "_op"}
    assert stream(CHANGELOG).columns_taken_off == {"_op"}
    # An append has no ops: a column of that name is data like any other.
    assert stream(APPEND, **marked).columns_taken_off == {"resolved"}
    assert stream(APPEND).columns_taken_off == frozenset()


@pytest.mark.parametrize(
    "sink,values,kind,told",
    [
        (APPEND, {"time_column": "ts"}, ConfigError, "nothing tells how far"),
        (APPEND, {"frontier": "maximum"}, ConfigError, "no column of times"),
        (APPEND, {"frontier": "none", "frontier_delay": 1}, ConfigError, "no effect"),
        (APPEND, {"time_column": "ts", "frontier": "watermark", "frontier_delay": 1}, ConfigError, "with"),
        (APPEND, MARK | {"frontier_delay": 1}, ConfigError, "promise"),
        (APPEND, MAXIMUM | {"frontier_delay": -1}, ConfigError, "frontier_delay"),
        (APPEND, MAXIMUM | {"frontier_delay": "10 seconds"}, ConfigError, "frontier_delay"),
        (APPEND, {"commit_interval": 5}, ConfigError, "has none"),
        (APPEND, MAXIMUM | {"commit_interval": 0}, ConfigError, "commit_interval"),
        (APPEND, {"time_column": "ts", "frontier": "mark"}, ConfigError, "no mark_column"),
        (APPEND, MAXIMUM | {"mark_column": "m"}, ConfigError, "mark_column has no effect"),
        (APPEND, MAXIMUM | {"partition_column": "p"}, ConfigError, "partition_column has no effect"),
        (APPEND, {"partitions": 4}, ConfigError, "partitions has no effect"),
        (APPEND, MARK | {"partition_column": "p"}, ConfigError, "belong together"),
        (APPEND, MARK | {"partitions": 4}, ConfigError, "belong together"),
        (APPEND, MARK | {"partition_column": "p", "partitions": 0}, ConfigError, "partitions"),
        (APPEND, MARK | {"mark_column": "ts"}, BadKey, "both 'ts'"),
        (APPEND, MARK | {"partition_column": "resolved", "partitions": 1}, BadKey, "both 'resolved'"),
        (UPSERT, MARK | {"mark_column": "_op"}, BadKey, "both '_op'"),
        (UPSERT, MARK | {"mark_column": "id"}, BadKey, "key names 'id'"),
        (UPSERT, MARK | {"mark_column": "lsn"}, BadKey, "sequence_by names 'lsn'"),
        (APPEND.replace(partition="day(m)"), MARK | {"mark_column": "m"}, BadKey, "partition names 'm'"),
        (APPEND.replace(sort="m"), MARK | {"mark_column": "m"}, BadKey, "sort names 'm'"),
        (UPSERT, MAXIMUM | {"time_column": "lsn"}, BadKey, "begins with 'ts'"),
        (UNORDERED, MAXIMUM, BadKey, "begins with None"),
        (CHANGELOG.replace(sequence_by="lsn"), MAXIMUM, BadKey, "begins with 'lsn'"),
        (APPEND.replace(delivery="at-least-once"), {}, ConfigError, "exactly once"),
        (APPEND, {"bad_rows_max": 5}, ConfigError, "no effect"),
        (APPEND, {"on_bad_row": "quarantine", "bad_rows_max": 0}, ConfigError, "bad_rows_max"),
        (APPEND, {"on_bad_row": "skip"}, ConfigError, "'fail' or 'quarantine'"),
        (APPEND, {"frontier": "guess"}, ConfigError, "'maximum'"),
        (APPEND, {"tasks": 4}, ConfigError, "not shuffled"),
        (UPSERT, {"tasks": 0}, ConfigError, "tasks"),
        (APPEND, {"replaces_checkpoint": "/old"}, ConfigError, "not the id"),
        (APPEND, {"replaces_checkpoint": OLD, "checkpoint": None}, ConfigError, "no checkpoint"),
        (APPEND, {"checkpoint": ""}, ConfigError, "checkpoint is empty"),
        (APPEND, {"checkpoint": "s3://key:canary@bucket/c"}, ConfigError, "login"),
        (APPEND, MARK | {"mark_column": "a;b"}, BadName, "a;b"),
        (APPEND, {"time_colum": "ts"}, UnknownOption, "time_column"),
        (5, {}, ConfigError, "sink"),
        ({"namespace": "a"}, {}, ConfigError, "table"),
    ],
)
def test_what_contradicts_is_refused_with_place_reason_and_hint(sink, values, kind, told):
    with pytest.raises(kind) as refused:
        StreamConfig(**{"sink": sink, "checkpoint": "/c"} | values)
    assert told in str(refused.value)
    assert refused.value.hint
    assert "canary" not in str(refused.value)
    assert refused.value.__context__ is None


def test_settings_that_go_together_are_taken():
    config = stream(UPSERT, on_bad_row="quarantine", bad_rows_max=5, tasks=8, replaces_checkpoint=OLD.upper())
    assert (config.bad_rows_max, config.tasks) == (5, 8)
    assert config.replaces_checkpoint == OLD
    assert stream(CHANGELOG, tasks=8).tasks == 8


def test_a_stream_is_a_value_that_is_frozen_and_survives_a_dump_and_a_pickle():
    config = stream(UPSERT, **MARK, commit_interval=5)
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.replace(commit_interval=6).commit_interval == 6
    said = config.model_dump_json(include={"sink": UPSERT.model_fields_set, **dict.fromkeys(MARK, True)})
    assert StreamConfig.model_validate_json(said).sink == UPSERT
    with pytest.raises(ConfigError):
        config.replace(frontier="none")
    with pytest.raises(ConfigError, match="frozen"):
        config.frontier = "none"


def test_case_58_a_secret_of_the_catalog_shows_nowhere():
    catalog = {"type": "rest", "uri": "https://me:canary@host", "properties": {"token": "canary"}}
    config = stream(APPEND.replace(catalog=catalog))
    for shown in (repr(config), str(config), repr(config.model_dump()), config.model_dump_json()):
        assert "canary" not in shown
    with pytest.raises(CalveError):
        pickle.dumps(config)
