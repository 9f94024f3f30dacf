"""The door: what the words of a builder come to, and how wrong words are answered. No session is started."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming import DataStreamWriter

import calve
from calve.config.options.listing import OPTIONS
from calve.config.sink import Mode
from calve.config.stream import BadRows, FrontierKind
from calve.model.errors import BadKey, BadPartition, BadTime, CalveError, ConfigError, UnknownOption
from calve.runtime.spark.door import BoundedWriter, StreamWriter
from calve.runtime.spark.progress import SinkListener

CANARY = "c4nary-s3cret"
ORDERS = (
    T.StructType()
    .add("id", "long")
    .add("region", "string")
    .add("lsn", "long")
    .add("ts", "timestamp")
    .add("resolved", "timestamp")
    .add("p", "integer")
    .add("my col", "long")
    .add("_op", "string")
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """No catalog is configured anywhere."""
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def frame(**session):
    """What a builder asks of a frame before it opens a catalog: its columns and its session's settings."""
    conf = SimpleNamespace(getAll={name.replace("__", "."): value for name, value in session.items()})
    return SimpleNamespace(schema=ORDERS, sparkSession=SimpleNamespace(conf=conf))


def stream(**session):
    return StreamWriter(frame(**session)).option("checkpointLocation", "/c")


def bounded():
    return BoundedWriter(frame())


def asked(builder, table="lake.sales.orders"):
    return builder._asked(table).config


def test_the_words_of_the_readme_come_to_a_configuration():
    config = asked(
        stream()
        .mode("upsert").key("id").op("_op").sequence_by("ts", "lsn")
        .partitioned_by("day(ts)", "bucket(16, id)").sorted_by("ts desc")
        .catalog("lake", type="sql", uri="sqlite:////lake/c.db", warehouse="/lake", **{"s3.region": "eu"})
        .frontier(maximum=True, delay="10 seconds")
        .commit_interval("1 minute")
        .on_bad_row("quarantine", rows_max=5)
        .schema_evolution()
        .options(**{"target.file.size": "64MB", "table.prop.owner": "me"})
        .query_name("orders").trigger(processingTime="1 minute")
        .replaces_checkpoint("4e0f2a1c-9d5b-4f0e-8c57-0d3e8a9b1c2d")
        .tasks(8)
    )  # fmt: skip
    sink = config.sink
    assert sink.identifier == ("sales", "orders")
    assert (sink.mode, sink.key, sink.sequence_by) == (Mode.UPSERT, ("id",), ("ts", "lsn"))
    assert sink.op_column_is_explicit
    assert [str(field) for field in sink.partition] == ["day(ts)", "bucket(16, id)"]
    assert sink.sort[0].descending
    assert sink.schema_evolution
    assert sink.target_file_bytes == 64 * 2**20
    assert dict(sink.table_properties) == {"owner": "me"}
    assert sink.catalog.name == "lake"
    assert sink.catalog.reveal() == {"uri": "sqlite:////lake/c.db", "warehouse": "/lake", "s3.region": "eu"}
    assert config.checkpoint == "/c"
    assert (config.time_column, config.frontier, config.frontier_delay) == ("ts", "maximum", 10_000_000)
    assert config.commit_interval == 60_000_000
    assert (config.on_bad_row, config.bad_rows_max) == (BadRows.QUARANTINE, 5)
    assert config.replaces_checkpoint == "4e0f2a1c-9d5b-4f0e-8c57-0d3e8a9b1c2d"
    assert config.tasks == 8


def test_a_table_and_a_checkpoint_are_enough(folder):
    config = asked(stream())
    assert config.sink.mode is Mode.APPEND
    assert config.frontier is FrontierKind.NONE
    assert config.sink.catalog.is_embedded
    assert (config.sink.catalog.name, config.checkpoint) == ("lake", "/c")
    assert list(folder.iterdir()) == [], "asking makes nothing"


def test_a_bounded_frame_needs_neither():
    config = asked(bounded().version(7).mode("upsert").key("id"))
    assert config.checkpoint is None
    assert config.sink.key == ("id",)


def test_columns_are_named_one_by_one_or_as_a_list_and_are_taken_as_they_are():
    assert asked(stream().mode("upsert").key("id", "region")).sink.key == ("id", "region")
    assert asked(stream().mode("upsert").key(["id", "region"])).sink.key == ("id", "region")
    assert asked(stream().mode("upsert").key("my col")).sink.key == ("my col",)
    assert len(asked(stream().partitioned_by("day(ts), region")).sink.partition) == 2


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.default], ids=lambda option: option.name
)
def test_every_option_of_a_sink_can_be_said(option):
    needs = {"changelog.op.column": "changelog", "changelog.time.column": "changelog", "op.column": "upsert"}
    builder = stream()
    if option.name == "catalog.name":
        builder.option("catalog.type", "sql").option("catalog.name", "lake")
        assert asked(builder).sink.catalog.name == "lake"
        return
    if option.name in needs:
        builder.mode(needs[option.name]).key("id")
    builder.option(option.name, option.default)
    value = asked(builder).sink
    for name in option.field.split(".") if option.field else ():
        value = getattr(value, name)
    if option.field:
        assert value == option.kind.parse(option.default, option.name)


def test_prefixed_options_can_be_said():
    config = asked(
        stream()
        .option("catalog.uri", "http://host")
        .option("catalog.prop.token", CANARY)
        .option("storage.s3.region", "eu")
        .option("table.prop.owner", "me")
    )
    assert config.sink.catalog.reveal() == {"uri": "http://host", "token": CANARY, "s3.region": "eu"}
    assert config.sink.table_properties["owner"] == "me"


def test_the_session_is_where_a_catalog_is_looked_for():
    session = {
        "spark__sql__catalog__lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark__sql__catalog__lake__type": "jdbc",
        "spark__sql__catalog__lake__uri": "jdbc:sqlite:/lake/c.db",
        "spark__sql__catalog__lake__warehouse": "/lake",
        "spark__sql__catalog__lake__table-default.owner": "catalog",
        "spark__sql__catalog__lake__table-default.note": "default",
        "spark__sql__catalog__lake__table-override.rule": "catalog",
    }
    builder = stream(**session).option("table.prop.note", "mine").option("table.prop.rule", "mine")
    sink = asked(builder).sink
    assert sink.catalog.reveal()["uri"] == "sqlite:////lake/c.db"
    assert dict(sink.table_properties) == {"owner": "catalog", "note": "mine", "rule": "catalog"}
    with pytest.raises(ConfigError, match="Did you mean lake"):
        asked(stream(**session), "lak.sales.orders")


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    "said,kind",
    [
        ({"maximum": True}, FrontierKind.MAXIMUM),
        ({"mark": "resolved"}, FrontierKind.MARK),
        ({"mark": "resolved", "partition": "p", "partitions": 4}, FrontierKind.MARK),
    ],
)
def test_the_first_column_of_the_sequence_is_the_time_where_there_is_a_frontier(said, kind):
    upsert = asked(stream().mode("upsert").key("id").sequence_by("ts", "lsn").frontier(**said))
    assert (upsert.frontier, upsert.time_column, upsert.sink.sequence_by) == (kind, "ts", ("ts", "lsn"))
    assert (upsert.partition_column, upsert.partitions) == (said.get("partition"), said.get("partitions"))
    for mode in ("append", "changelog"):
        config = asked(stream().mode(mode).sequence_by("ts").frontier(**said))
        assert (config.time_column, config.sink.sequence_by) == ("ts", ())


def test_numbers_count_in_the_units_of_the_column():
    builder = stream().sequence_by("lsn").frontier(maximum=True, delay=100).commit_interval(1_000)
    config = asked(builder)
    assert (config.frontier_delay, config.commit_interval) == (100, 1_000)
    with pytest.raises(ConfigError, match="commit_interval is '1 minute'"):
        asked(builder.commit_interval("1 minute"))
    with pytest.raises(ConfigError, match="delay is '1 minute'"):
        asked(builder.commit_interval(5).frontier(maximum=True, delay="1 minute"))


@pytest.mark.parametrize(
    "act,kind,told",
    [
        (lambda b: b.frontier(), ConfigError, "none was given"),
        (lambda b: b.frontier(maximum=True, watermark=True), ConfigError, "maximum and watermark"),
        (lambda b: b.frontier(watermark=True, delay="1 second"), ConfigError, "withWatermark"),
        (lambda b: b.frontier(mark="resolved", delay="1 second"), ConfigError, "no effect"),
        (lambda b: b.frontier(maximum=True), ConfigError, "sequence_by"),
        (lambda b: b.sequence_by("ts"), ConfigError, "no effect in append mode"),
        (lambda b: b.sequence_by("ts", "lsn").frontier(maximum=True), ConfigError, "'lsn' after the time"),
        (lambda b: b.sequence_by("ts").frontier(watermark=True), ConfigError, "withWatermark('ts'"),
        (lambda b: b.sequence_by("tss").frontier(maximum=True, delay="1 second"), BadKey, "'ts'"),
        (lambda b: b.sequence_by("ts").frontier(mark="resolvd"), ConfigError, "'resolved'"),
        (
            lambda b: b.sequence_by("ts").frontier(mark="resolved", partition="p"),
            ConfigError,
            "belong together",
        ),
        (lambda b: b.commit_interval("1 minute"), ConfigError, "has none"),
        (lambda b: b.commit_interval("1 minut"), ConfigError, "has none"),
        (lambda b: b.sequence_by("lsn").frontier(maximum=True, delay=-5), ConfigError, "the delay is -5"),
        (lambda b: b.sequence_by("ts").frontier(maximum=True, delay="soon"), ConfigError, "'soon'"),
        (lambda b: b.mode("upsert"), BadKey, "no key"),
        (lambda b: b.mode("upsert").key("idd"), BadKey, "'id'"),
        (lambda b: b.mode("upsrt"), ConfigError, "'upsert'"),
        (lambda b: b.mode("upsert").key("id").op("_ob"), ConfigError, "'_op'"),
        (lambda b: b.partitioned_by("dayz(ts)"), BadPartition, "day"),
        (lambda b: b.partitioned_by("day(tss)"), BadPartition, "'ts'"),
        (lambda b: b.on_bad_row("skip"), ConfigError, "'fail' or 'quarantine'"),
        (lambda b: b.on_bad_row("quarantin"), ConfigError, "'quarantine'?"),
        (lambda b: b.on_bad_row("fail", rows_max=5), ConfigError, "no effect"),
        (lambda b: b.trigger(continuous="1 second"), ConfigError, "foreachBatch"),
        (lambda b: b.trigger(realTime="1 minute"), ConfigError, "foreachBatch"),
        (lambda b: b.trigger(), ConfigError, "none"),
        (lambda b: b.query_name(" "), ConfigError, "name"),
        (lambda b: b.watch(print), ConfigError, "SinkListener"),
        (lambda b: b.replaces_checkpoint("old"), ConfigError, "not the id"),
        (lambda b: b.tasks(4), ConfigError, "not shuffled"),
        (lambda b: b.catalog("lake", type="jdbc", uri="jdbc:sqlite:/c.db"), ConfigError, "catalog.type"),
        (lambda b: b.catalog("other", type="sql"), ConfigError, "'other'"),
    ],
)
def test_a_wrong_call_fails_before_a_query_starts(act, kind, told):
    with pytest.raises(kind) as refused:
        asked(act(stream()))
    assert told in str(refused.value)
    assert refused.value.hint


def test_a_stream_needs_a_checkpoint_and_a_bounded_frame_has_none():
    with pytest.raises(ConfigError, match="no checkpointLocation"):
        asked(StreamWriter(frame()))
    named = StreamWriter(frame(spark__sql__streaming__checkpointLocation="/all")).query_name("orders")
    assert asked(named).checkpoint == "/all/orders"
    with pytest.raises(ConfigError, match="has no checkpoint"):
        asked(bounded().option("checkpointLocation", "/c"))
    with pytest.raises(BadTime):
        bounded().version(-1)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("name", ["checkpointLocation", "checkpointlocation", "CheckpointLocation"])
def test_sparks_checkpoint_is_known_in_any_case_of_letters(name):
    assert asked(StreamWriter(frame()).option(name, "/x")).checkpoint == "/x"


@pytest.mark.parametrize(
    "name,told",
    [
        ("checkpoint.location", "'checkpointLocation'"),
        ("checkpointLocatio", "'checkpointLocation'"),
        ("target.filesize", "'target.file.size'"),
        ("write_mode", "'write.mode'"),
        ("mergeSchema", ".schema_evolution()"),
        ("merge-schema", ".schema_evolution()"),
        ("fanout-enabled", "one file open"),
        ("target-file-size-bytes", "'target.file.size'"),
        ("path", ".to_table("),
        ("queryName", ".query_name("),
        ("txnVersion", ".version("),
        ("asyncProgressTrackingEnabled", "exactly once"),
        ("zzz", "docs/options.md"),
    ],
)
def test_an_option_that_does_not_exist_is_answered_with_the_right_word_at_once(name, told):
    with pytest.raises(UnknownOption) as refused:
        stream().option(name, CANARY)
    assert told in refused.value.hint
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "name,value",
    [
        ("target.file.size", "big"),
        ("write.mode", None),
        ("checkpointLocation", 5),
        ("checkpointLocation", ""),
        (5, "x"),
        ("maintenance.compaction", "true"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused_at_once(name, value):
    with pytest.raises(ConfigError):
        stream().option(name, value)


def test_a_word_said_twice_means_the_last_and_two_ways_to_say_it_must_agree():
    assert asked(stream().mode("changelog").mode("append")).sink.mode is Mode.APPEND
    both = stream().mode("upsert").key("id", "region").option("equality.delete.columns", "id,region")
    assert asked(both.option("write.mode", "upsert")).sink.key == ("id", "region")
    assert asked(stream().schema_evolution().option("schema.evolution", "true")).sink.schema_evolution


@pytest.mark.parametrize(
    "builder",
    [
        lambda: stream().mode("append").option("write.mode", "upsert"),
        lambda: stream().option("write.mode", "append").mode("changelog"),
        lambda: stream().mode("upsert").key("id").option("equality.delete.columns", "region"),
        lambda: stream().schema_evolution(False).option("schema.evolution", "true"),
        lambda: stream().option("namespace", "other"),
        lambda: stream().option("table.name", "other"),
        lambda: stream().catalog("lake", uri="http://a").option("catalog.uri", "http://b"),
        lambda: stream().catalog("lake", uri="http://a", token=CANARY).option("catalog.prop.token", "x"),
        lambda: stream().catalog("lake", uri="http://a").option("catalog.name", "other"),
    ],
)
def test_a_contradiction_is_refused_because_nobody_knows_what_was_meant(builder):
    with pytest.raises(ConfigError) as refused:
        asked(builder())
    assert refused.value.hint == "Say it once."
    assert CANARY not in str(refused.value)


def test_options_may_say_again_what_the_table_is():
    config = asked(stream().option("namespace", "sales").option("table.name", "orders"))
    assert config.sink.identifier == ("sales", "orders")


# ---------------------------------------------------------------- other words


SPARKS = (DataStreamWriter, DataFrameWriter, DataFrameWriterV2)
FORMATS = {"csv", "jdbc", "json", "orc", "parquet", "text", "xml"}
"""Shortcuts for files of a format: who calls them does not want a table."""


@pytest.mark.parametrize("builder", [stream, bounded])
def test_every_word_of_sparks_writers_is_ours_too_or_is_answered_with_ours(builder):
    words = {word for writer in SPARKS for word in vars(writer) if not word.startswith("_")}
    unanswered = []
    for word in sorted(words - FORMATS):
        if word in dir(type(builder())):
            continue
        with pytest.raises(AttributeError) as refused:
            getattr(builder(), word)
        if not isinstance(refused.value, ConfigError):
            unanswered.append(word)
    assert unanswered == []


@pytest.mark.parametrize(
    "word,ours",
    [
        ("toTable", ".to_table("),
        ("partitionedBy", ".partitioned_by("),
        ("partitionBy", ".partitioned_by("),
        ("outputMode", ".mode("),
        ("queryName", ".query_name("),
        ("foreachBatch", ".to_table("),
        ("start", ".to_table("),
        ("saveAsTable", ".to_table("),
        ("mergeSchema", ".schema_evolution("),
        ("version", "calve.write("),
    ],
)
def test_sparks_own_spelling_gets_an_error_that_names_ours(word, ours):
    with pytest.raises(ConfigError) as refused:
        getattr(stream(), word)
    assert ours in refused.value.hint
    assert not hasattr(stream(), word)


@pytest.mark.parametrize(
    "word", ["trigger", "query_name", "frontier", "commit_interval", "watch", "on_bad_row"]
)
def test_what_is_only_of_streams_says_so(word):
    with pytest.raises(ConfigError) as refused:
        getattr(bounded(), word)
    assert "stream" in refused.value.hint or "stops" in refused.value.hint


def test_an_unknown_word_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match="Did you mean 'partitioned_by'"):
        _ = stream().partitoned_by
    with pytest.raises(AttributeError, match=r"has no 'zzz'$"):
        _ = stream().zzz


def test_a_builder_shows_nothing_of_what_it_was_told():
    builder = (
        stream().catalog("lake", uri=f"http://me:{CANARY}@host", token=CANARY).option("storage.key", CANARY)
    )
    assert CANARY not in repr(builder)
    assert CANARY not in repr(vars(builder))
    assert CANARY not in repr(asked(builder))


@pytest.mark.parametrize(
    "breaker", [{"mode": "upsert"}, {"table": "zzz"}, {"catalog": "other"}, {"option": "sort.order"}]
)
def test_case_58_no_error_of_the_door_shows_a_secret(breaker):
    builder = stream().catalog("lake", uri=f"http://me:{CANARY}@host", token=CANARY)
    if "mode" in breaker:
        builder.mode("upsert")
    if "catalog" in breaker:
        builder.catalog("other", uri=f"http://me:{CANARY}@host", token=CANARY)
    if "option" in breaker:
        builder.option("sort.order", "zzz")
    with pytest.raises(CalveError) as refused:
        asked(builder, breaker.get("table", "lake.sales.orders"))
    assert CANARY not in str(refused.value) + repr((refused.value.__cause__, refused.value.__context__))


def test_listeners_are_kept_in_their_order():
    one, other = SinkListener(), SinkListener()
    assert stream().watch(one).watch(other)._listeners == [one, other]


# ---------------------------------------------------------------- the package


def test_the_package_has_the_door_and_pays_for_it_when_it_is_asked_for():
    script = (
        "import sys, calve; assert not {'pyspark', 'pyiceberg', 'pydantic'} & {*sys.modules}; "
        "from calve import StreamConfig, write, write_stream, progress, SinkListener; print('fine')"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "fine\n"
    assert {"write", "write_stream", "StreamConfig", "progress"} <= {*calve.__all__}


def test_without_spark_the_door_says_what_to_install():
    script = (
        "import sys; sys.modules['pyspark'] = None; import calve\n"
        "try: calve.write_stream\n"
        "except calve.ConfigError as error: print(error.hint)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "calve[spark]" in run.stdout


def test_a_url_names_the_table_its_catalog_and_all_else():
    url = (
        "iceberg://localhost:8181/sales/orders?warehouse=w&mode=upsert&equality_delete_by=id&sequence_by=lsn"
    )
    config = asked(stream(), url).sink
    assert config.identifier == ("sales", "orders")
    assert (config.mode, config.key, config.sequence_by) == (Mode.UPSERT, ("id",), ("lsn",))
    assert config.catalog.reveal() == {"uri": "http://localhost:8181", "warehouse": "w"}
    assert asked(stream().mode("upsert").key("id").sequence_by("lsn"), url).sink == config


@pytest.mark.parametrize(
    "said",
    [
        lambda one: one.mode("append"),
        lambda one: one.option("write.mode", "append"),
        lambda one: one.option("catalog.uri", f"http://{CANARY}"),
        lambda one: one.catalog("lake", type="rest", uri=f"http://{CANARY}"),
    ],
    ids=["method", "option", "catalog option", "catalog"],
)
def test_a_url_and_a_word_that_says_another_thing_are_a_contradiction(said):
    with pytest.raises(ConfigError) as caught:
        asked(said(stream()), "iceberg://localhost:8181/sales/orders?mode=upsert&key=id")
    assert CANARY not in str(caught.value)


def test_a_pattern_of_tables_may_be_a_url():
    from calve.runtime.spark.feed_writer import _name

    assert (
        _name("shop.a b", {}, "iceberg://h/sales/{table}?mode=upsert")
        == "iceberg://h/sales/a%20b?mode=upsert"
    )
    assert _name("shop.a b", {}, "lake.sales.{table}") == "`lake`.`sales`.`a b`"
