"""What is refused before a query starts: by schema, by settings and by the table as it is."""

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from calve import IcebergSink
from calve.config.catalog import CatalogConfig
from calve.config.sink import SinkConfig
from calve.config.stream import StreamConfig
from calve.model.errors import (
    BadKey,
    BadName,
    BadPartition,
    ConfigError,
    SchemaMismatch,
    StoreError,
    TableDiffers,
)
from calve.runtime.spark.checks import (
    check_columns,
    check_frame,
    check_reach,
    check_target,
    checkpoint_of,
    trigger_of,
)
from calve.runtime.spark.columns import arrow_schema
from calve.table.catalogs import open_catalog
from calve.table.fence import read_progress

WATERMARK = {"spark.watermarkDelayMs": 10_000}


def struct(*fields, **more):
    """Columns such as `id long`, and others by their types."""
    schema = T.StructType()
    for field in fields:
        schema = schema.add(*field.split())
    for name, kind in more.items():
        schema = schema.add(name, kind)
    return schema


ORDERS = struct("id long", "total double", "lsn long", "ts timestamp", "p integer", "_op string")


def upsert(**values):
    return SinkConfig(**{"namespace": "s", "table": "o", "mode": "upsert", "key": "id"} | values)


def append(**values):
    return SinkConfig(namespace="s", table="o", **values)


def check(schema, sink, **stream):
    config = StreamConfig(sink=sink, checkpoint="/c", **stream)
    return check_columns(config, schema, arrow_schema(schema))


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize(
    "frame", [None, 5, pa.table({"a": [1]}), "lake.sales.orders"], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize("streaming", [True, False])
def test_only_a_frame_of_spark_is_written(frame, streaming):
    with pytest.raises(ConfigError, match="takes a Spark DataFrame"):
        check_frame(frame, streaming=streaming)


def test_columns_come_as_arrow_with_timestamps_in_utc():
    schema = arrow_schema(struct("ts timestamp", "n timestamp_ntz", s=T.StructType().add("a", "string")))
    assert schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert schema.field("n").type == pa.timestamp("us")
    assert schema.field("s").type == pa.struct([pa.field("a", pa.string())])


@pytest.mark.parametrize(
    "kind,path",
    [
        (T.VariantType(), "x"),
        (T.ArrayType(T.VariantType()), "x.element"),
        (T.MapType(T.StringType(), T.VariantType()), "x.value"),
        (T.StructType().add("v", T.VariantType()), "x.v"),
        (T.YearMonthIntervalType(), "x"),
        (T.CalendarIntervalType(), "x"),
    ],
    ids=str,
)
def test_a_type_that_has_no_place_is_refused_by_its_path(kind, path):
    with pytest.raises(SchemaMismatch, match=f"column '{path}' is") as refused:
        arrow_schema(struct("id long", x=kind))
    assert refused.value.hint


@pytest.mark.parametrize("kind", [T.NullType(), T.DayTimeIntervalType()], ids=str)
def test_a_type_that_iceberg_has_not_is_refused_by_name(kind):
    with pytest.raises(SchemaMismatch, match="'x'"):
        check(struct("id long", x=kind), append())


# ---------------------------------------------------------------- the query


def test_the_checkpoint_is_where_it_was_said_or_where_the_session_puts_named_queries():
    session = {"spark.sql.streaming.checkpointLocation": "/all/"}
    assert checkpoint_of("/c", "orders", session) == "/c"
    assert checkpoint_of(None, "orders", session) == "/all/orders"


def test_a_query_without_a_checkpoint_is_refused():
    with pytest.raises(ConfigError, match="no checkpointLocation"):
        checkpoint_of(None, "orders", {})
    with pytest.raises(ConfigError, match="has no name") as refused:
        checkpoint_of(None, None, {"spark.sql.streaming.checkpointLocation": "/all"})
    assert "query_name" in refused.value.hint


@pytest.mark.parametrize("said", [{"processingTime": "1 minute"}, {"availableNow": True}, {"once": True}])
def test_triggers_of_micro_batches_are_taken(said):
    assert trigger_of(**said, continuous=None) == said


@pytest.mark.parametrize(
    "said,told",
    [
        ({"continuous": "1 second"}, "continuous has no micro-batches"),
        ({"realTime": "5 minutes"}, "realTime has no micro-batches"),
        ({}, "none was given"),
        ({"once": True, "availableNow": True}, "once and availableNow"),
        ({"processingTime": 5}, "processingTime is a int"),
        ({"processingTime": " "}, "processingTime"),
        ({"availableNow": False}, "availableNow is False"),
    ],
)
def test_other_triggers_are_refused(said, told):
    with pytest.raises(ConfigError, match=told) as refused:
        trigger_of(**said)
    assert refused.value.hint


# ---------------------------------------------------------------- columns


def test_the_table_gets_the_data_without_ops_and_marks():
    assert check(ORDERS, upsert()).rows.column_names == ["id", "total", "lsn", "ts", "p"]
    assert check(ORDERS, append()).rows.column_names == ORDERS.names
    marks = {"time_column": "lsn", "frontier": "mark", "mark_column": "mark"}
    schema = struct("id long", "lsn long", "mark long")
    assert check(schema, upsert(sequence_by="lsn"), **marks).rows.column_names == ["id", "lsn"]
    changelog = check(ORDERS, SinkConfig(namespace="s", table="o", mode="changelog"))
    assert changelog.rows.column_names[-2:] == ["_calve_op", "_calve_time"]


def test_an_upsert_without_an_order_of_changes_is_allowed():
    """At most one change of a key comes in a micro-batch then; two that differ are refused when they come."""
    assert check(struct("id long", "a string"), upsert()).rows.column_names == ["id", "a"]


MARK = {"time_column": "lsn", "frontier": "mark", "mark_column": "p"}
BY_LSN = upsert(sequence_by="lsn")


@pytest.mark.parametrize(
    "sink,stream,kind,told,near",
    [
        (upsert(key="ID"), {}, BadKey, "names 'ID'", "'id'"),
        (upsert(key="idd"), {}, BadKey, "names 'idd'", "'id'"),
        (upsert(key="zzz"), {}, BadKey, "names 'zzz'", "The columns are: id, total"),
        (upsert(sequence_by="lsm"), {}, BadKey, "names 'lsm'", "'lsn'"),
        (upsert(op_column="_ob"), {}, ConfigError, "names '_ob'", "'_op'"),
        (upsert(partition="day(tss)"), {}, BadPartition, "'tss'", "'ts'"),
        (upsert(sort="totl"), {}, BadPartition, "'totl'", "'total'"),
        (append(), {"time_column": "tss", "frontier": "maximum"}, BadKey, "names 'tss'", "'ts'"),
        (BY_LSN, MARK | {"mark_column": "lsm"}, ConfigError, "names 'lsm'", "'lsn'"),
        (BY_LSN, MARK | {"partition_column": "idd", "partitions": 2}, ConfigError, "names 'idd'", "'id'"),
    ],
)
def test_a_column_that_the_stream_lacks_is_answered_with_the_nearest(sink, stream, kind, told, near):
    with pytest.raises(kind) as refused:
        check(ORDERS, sink, **stream)
    assert told in refused.value.message
    assert near in refused.value.hint


@pytest.mark.parametrize(
    "schema,sink,kind,told",
    [
        (struct("id double"), upsert(), BadKey, "double"),
        (struct(id=T.ArrayType(T.LongType())), upsert(), BadKey, "list"),
        (struct("id long", s=T.StructType().add("a", "long")), upsert(sequence_by="s"), BadKey, "no order"),
        (struct("id long", "_op double"), upsert(), SchemaMismatch, "op column '_op' is double"),
        (struct("id long", "a string"), upsert(partition="day(a)"), BadPartition, "day"),
        (struct("id long", "id string"), append(), BadName, "'id' and 'id'"),
        (struct("id long", "ID string"), append(), BadName, "'id' and 'ID'"),
        (struct("id long", "_op string", "_OP string"), upsert(), BadName, "'_op' and '_OP'"),
        (struct("id long", "__calve_time long"), append(), BadName, "the sink's own"),
        (struct("id long", "_file long"), append(), BadName, "Iceberg's own"),
        (struct("_op string"), upsert(key="_op", op_column="x"), ConfigError, "op_column"),
        (struct(), append(), SchemaMismatch, "no fields"),
    ],
)
def test_a_column_that_cannot_serve_is_refused_with_the_reason(schema, sink, kind, told):
    with pytest.raises(kind) as refused:
        check(schema, sink)
    assert told in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    "kind",
    ["byte", "short", "integer", "long", "timestamp", "timestamp_ntz", "decimal(38,0)", "decimal(5,0)"],
)
def test_integers_decimals_and_timestamps_are_times(kind):
    by_maximum = {"time_column": "t", "frontier": "maximum"}
    check(struct("id long", f"t {kind}"), upsert(sequence_by="t"), **by_maximum)
    check(struct("id long", f"t {kind}"), append(), **by_maximum)


@pytest.mark.parametrize("kind", ["double", "string", "date", "decimal(38,2)", "boolean", "binary"])
def test_what_is_no_time_is_refused(kind):
    with pytest.raises(BadKey, match=r"column of times 't' is ") as refused:
        check(struct("id long", f"t {kind}"), append(), time_column="t", frontier="maximum")
    assert "timestamps" in refused.value.hint


def test_a_frontier_by_watermark_needs_one_on_the_column_of_times():
    watermarked = struct("t timestamp").add("ts", T.TimestampType(), metadata=WATERMARK)
    check(watermarked, append(), time_column="ts", frontier="watermark")
    with pytest.raises(ConfigError, match="'t' has none") as refused:
        check(watermarked, append(), time_column="t", frontier="watermark")
    assert "withWatermark('t'" in refused.value.hint


@pytest.mark.parametrize(
    "times,marks,fits",
    [
        ("long", "long", True),
        ("long", "integer", True),
        ("decimal(38,0)", "long", True),
        ("timestamp", "timestamp", True),
        ("long", "decimal(38,0)", False),
        ("timestamp", "long", False),
        ("long", "timestamp", False),
        ("timestamp", "timestamp_ntz", False),
        ("long", "string", False),
    ],
)
def test_a_mark_is_a_time_of_the_same_kind(times, marks, fits):
    schema = struct("id long", f"t {times}", f"m {marks}")
    said = {"time_column": "t", "frontier": "mark", "mark_column": "m"}
    if fits:
        check(schema, append(), **said)
    else:
        with pytest.raises(ConfigError, match="mark_column 'm'"):
            check(schema, append(), **said)


def test_a_partition_is_named_by_a_plain_value():
    schema = struct("t long", "m long", "p string", q=T.ArrayType(T.LongType()))
    said = {"time_column": "t", "frontier": "mark", "mark_column": "m", "partitions": 2}
    check(schema, append(), **said, partition_column="p")
    with pytest.raises(ConfigError, match="'q' is nested"):
        check(schema, append(), **said, partition_column="q")


# ---------------------------------------------------------------- the table


@pytest.fixture
def lake(tmp_path):
    return CatalogConfig(warehouse=str(tmp_path / "w"))


def target(sink, schema, lake):
    catalog = open_catalog(lake)
    try:
        place = check_target(sink, check(schema, sink), catalog)
        assert place.startswith(("file:", "/"))
        assert not catalog.namespace_exists("new")
    finally:
        catalog.close()


def make(lake, **values):
    """A table with the columns id and a, written by a sink of one process."""
    sink = SinkConfig(namespace="s", table="o", catalog=lake, **values)
    with IcebergSink(sink) as writer:
        writer.begin_epoch(1)
        writer.write_batch(pa.table({"id": [1], "a": ["x"]}))
        writer.commit_epoch(1)
        return writer.frontier()


PLAIN = struct("id long", "a string")


def test_a_table_that_is_not_there_is_fine_and_is_not_created(lake):
    target(append(catalog=lake), PLAIN, lake)
    target(SinkConfig(namespace="new", table="o", catalog=lake), PLAIN, lake)


def test_a_table_that_fits_is_fine_and_is_not_claimed(lake):
    make(lake, mode="upsert", key="id")
    target(upsert(catalog=lake), PLAIN, lake)
    target(upsert(catalog=lake, schema_evolution=True), struct("id long", "a string", "b long"), lake)
    catalog = open_catalog(lake)
    progress = read_progress(catalog.load_table("s.o"), "s.o")
    catalog.close()
    assert progress is not None
    assert progress.generation == 1, "only the sink that wrote it has claimed it"


@pytest.mark.parametrize(
    "made,asked,schema,kind,told",
    [
        ({"mode": "upsert", "key": "id"}, upsert(key="a"), PLAIN, TableDiffers, "key: found id, wanted a"),
        ({}, upsert(), PLAIN, TableDiffers, "key: found none"),
        (
            {"mode": "upsert", "key": "id"},
            append(),
            PLAIN,
            TableDiffers,
            "upsert (id), and is now asked to be append",
        ),
        ({}, append(fence="main"), PLAIN, TableDiffers, "was begun with a tag"),
        ({"fence": "main"}, append(), PLAIN, TableDiffers, "was begun with fence = 'main'"),
        ({}, append(partition="id"), PLAIN, TableDiffers, "partition"),
        ({}, append(sort="id"), PLAIN, TableDiffers, "sort order"),
        ({}, append(location="/elsewhere"), PLAIN, TableDiffers, "location"),
        ({}, append(), struct("id long", "a string", "b long"), SchemaMismatch, "column 'b' is new"),
        ({}, append(), struct("id string", "a string"), SchemaMismatch, "column 'id'"),
        ({}, append(schema_evolution=True), struct("id string"), SchemaMismatch, "column 'id'"),
        ({}, append(), struct("id long", "A string"), SchemaMismatch, "but for its case"),
    ],
)
def test_a_table_that_cannot_take_the_stream_is_refused_with_all_that_differs(
    lake, made, asked, schema, kind, told
):
    make(lake, **made)
    with pytest.raises(kind) as refused:
        target(asked.replace(catalog=lake), schema, lake)
    assert told in str(refused.value)
    assert refused.value.hint


def test_a_place_that_cannot_be_written_is_refused(lake):
    with pytest.raises(StoreError, match="s3"):
        target(append(catalog=lake, location="hdfs://bucket/o"), PLAIN, lake)


@pytest.mark.parametrize(
    "place,master,warned",
    [
        ("/lake/s/o", "spark://host:7077", True),
        ("file:///lake/s/o", "yarn", True),
        ("file:///lake/s/o", "local-cluster[2,1,1024]", True),
        ("/lake/s/o", "local[*]", False),
        ("s3://bucket/o", "spark://host:7077", False),
        ("warehouse", "spark://host:7077", False),
    ],
)
def test_a_folder_that_executors_may_not_share_is_warned_of(place, master, warned, caplog):
    check_reach(place, master)
    assert ("loses their files" in caplog.text) is warned
