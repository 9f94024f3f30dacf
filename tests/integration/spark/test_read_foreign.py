"""calve.read sees what Iceberg's own runtime sees, of tables that Spark made (P1 for readers).

Each table is made once; all its snapshots are then read by both.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calve
from calve.runtime.spark import deleted
from calve.store import local_path
from tests.support.both import same_everywhere, same_rows, snapshots_of
from tests.support.lake import NAMESPACE, Lake
from tests.support.scene import Scene, call
from tests.support.spark import has_iceberg
from tests.support.variants import GLOBAL, SCOPED
from tests.support.workload import Variant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not has_iceberg(), reason="Iceberg has no runtime for this release of Spark"),
]

MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read'"
)


def make(spark: Any, lake: Lake, name: str, columns: str, by: str = "", properties: str = "") -> str:
    table = f"{lake.name}.{NAMESPACE}.{name}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.name}.{NAMESPACE}")
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg {by}"
        + (f" TBLPROPERTIES ({properties})" if properties else "")
    )
    return table


def fill(spark: Any, table: str, first: int, count: int = 20) -> None:
    numbers = f"range({first}, {first + count})"
    spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id), id % 3, id * 1.5 FROM {numbers}")


COLUMNS = "id BIGINT, name STRING, part BIGINT, amount DOUBLE"


def change(spark: Any, table: str) -> None:
    """What leaves deletes behind: by a delete, an update, and a merge."""
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(f"UPDATE {table} SET name = concat(name, '!') WHERE id % 7 = 0")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT id + 15 AS id FROM range(10)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, name, part, amount) VALUES (s.id, 'new', 0, 0)"
    )


@pytest.mark.parametrize("granularity", ["file", pytest.param("partition", marks=pytest.mark.nightly)])
def test_position_deletes_of_format_version_2_are_applied(
    lake: Lake, spark: Any, granularity: str, monkeypatch: pytest.MonkeyPatch
):
    properties = f"'format-version'='2', {MERGE_ON_READ}, 'write.delete.granularity'='{granularity}'"
    name = f"positions_{granularity}"
    table = make(spark, lake, name, COLUMNS, "PARTITIONED BY (part)", properties)
    fill(spark, table, 0)
    fill(spark, table, 20)
    change(spark, table)
    deletes = spark.sql(f"SELECT DISTINCT content, file_format FROM {table}.delete_files").collect()
    assert [tuple(row) for row in deletes] == [(1, "PARQUET")]
    assert len(same_everywhere(spark, table)) == 30
    with monkeypatch.context() as few:  # too many to mark them: they are joined
        few.setattr(deleted, "_DELETES_MAX", 0)
        same_rows(spark, table)
    call(
        spark,
        "rewrite_position_delete_files",
        name,
        "options => map('rewrite-all', 'true')",
    )
    same_rows(spark, table)
    call(spark, "rewrite_manifests", name)
    same_rows(spark, table)
    call(spark, "rewrite_data_files", name, "options => map('delete-file-threshold', '1')")
    same_rows(spark, table)


def test_files_that_are_not_what_manifests_say_are_never_read_as_something_else(lake: Lake, spark: Any):
    """Rows are told apart by the sizes of their files, and deleted ones by how many there are: where either
    is not as it was written, the paths tell, or the query stops."""
    properties = f"'format-version'='2', {MERGE_ON_READ}"
    table = make(spark, lake, "other_files", COLUMNS, "PARTITIONED BY (part)", properties)
    fill(spark, table, 0)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    wanted = sorted(calve.read(spark, table).collect())
    (path, *_) = (
        row[0] for row in spark.sql(f"SELECT file_path FROM {table}.files WHERE content = 0").collect()
    )
    file = local_path(path)
    whole = pq.read_table(file)
    pq.write_table(whole, file, compression="none")  # the same rows, of another size
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    assert sorted(calve.read(spark, table).collect()) == wanted
    pq.write_table(pa.concat_tables([whole] * 40), file)
    with pytest.raises(Exception, match="a file has more rows than its manifest says"):
        calve.read(spark, table).collect()


def test_deletion_vectors_of_format_version_3_stand_for_all_positions_of_their_file(lake: Lake, spark: Any):
    properties = f"'format-version'='2', {MERGE_ON_READ}"
    table = make(spark, lake, "vectors", COLUMNS, "PARTITIONED BY (part)", properties)
    fill(spark, table, 0)
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')")
    same_rows(spark, table)
    fill(spark, table, 20)
    change(spark, table)
    formats = {row[0] for row in spark.sql(f"SELECT file_format FROM {table}.delete_files").collect()}
    assert "PUFFIN" in formats
    assert same_everywhere(spark, table)
    call(spark, "rewrite_data_files", "vectors", "options => map('rewrite-all', 'true')")
    same_rows(spark, table)


def test_a_vector_of_every_kind_of_container_is_read(lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch):
    """Sparse places are an array, dense ones a bitmap, and spans are runs."""
    table = make(spark, lake, "containers", "id BIGINT", properties=f"'format-version'='3', {MERGE_ON_READ}")
    spark.range(0, 400_000, 1, 1).writeTo(table).append()
    spark.sql(
        f"DELETE FROM {table} WHERE (id < 60000 AND id % 3 = 0) OR (id BETWEEN 70000 AND 140000) "
        "OR (id > 200000 AND id % 1000 = 7) OR id = 399999"
    )
    frame = calve.read(spark, table)
    theirs = spark.table(table)
    assert "Join" not in frame._jdf.queryExecution().optimizedPlan().toString(), "places are marked"
    one = frame.where("id = 70001")
    assert "EqualTo(id,70001)" in one._jdf.queryExecution().executedPlan().toString(), "it reaches the file"
    assert one.count() == 0
    assert frame.count() == theirs.count() == 400_000 - 20_000 - 70_001 - 200 - 1
    assert frame.exceptAll(theirs).count() == 0
    monkeypatch.setattr(deleted, "_DELETES_MAX", 0)
    joined = calve.read(spark, table)
    assert "LeftAnti" in joined._jdf.queryExecution().optimizedPlan().toString()
    assert joined.exceptAll(theirs).count() == theirs.exceptAll(joined).count() == 0


@pytest.mark.parametrize("shape", [GLOBAL, SCOPED], ids=lambda shape: shape.name)
def test_equality_deletes_and_positions_meet_in_one_table(
    lake: Lake, spark: Any, table_name: str, shape: Variant
):
    scene = Scene(lake, spark, table_name, shape)
    table = lake.full_name(scene.table)
    with scene.sink() as sink:
        scene.publish(sink, 3)
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({MERGE_ON_READ})")
        spark.sql(f"DELETE FROM {table} WHERE id % 4 = 0")
        spark.sql(f"UPDATE {table} SET name = 'theirs' WHERE id % 3 = 0")
        theirs = snapshots_of(spark, table)[-1]
        scene.publish(sink, 2)
    assert same_rows(spark, table, theirs)
    assert same_rows(spark, table)
    call(spark, "rewrite_data_files", scene.table, "options => map('delete-file-threshold', '1')")
    same_rows(spark, table)


def test_columns_are_known_by_their_ids_whatever_they_were_called(lake: Lake, spark: Any):
    table = make(
        spark,
        lake,
        "evolved_by_spark",
        "id INT, a STRING, b STRING, ratio FLOAT, price DECIMAL(9, 2), s STRUCT<x: INT, y: STRING>, "
        "l ARRAY<STRUCT<p: INT>>, m MAP<STRING, STRUCT<q: FLOAT>>",
    )
    one = (
        "'a', 'b', 1.5, 2.50, named_struct('x', 1, 'y', 'y'), array(named_struct('p', 1)), "
        "map('k', named_struct('q', CAST(0.5 AS FLOAT)))"
    )
    spark.sql(f"INSERT INTO {table} SELECT 1, {one}")
    same_rows(spark, table)
    for words in (
        "RENAME COLUMN a TO c",
        "RENAME COLUMN b TO a",  # `a` is in old files, and another column there
        "DROP COLUMN ratio",
        "ADD COLUMN ratio BIGINT",  # the same
        "ADD COLUMN extra STRING AFTER id",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN price TYPE DECIMAL(18, 2)",
        "ADD COLUMN s.z DOUBLE FIRST",
        "RENAME COLUMN s.x TO xx",
        "ALTER COLUMN s.xx TYPE BIGINT",
        "DROP COLUMN s.y",
        "ADD COLUMN s.y INT",
        "ADD COLUMN l.element.r STRING",
        "ALTER COLUMN l.element.p TYPE BIGINT",
        "ALTER COLUMN m.value.q TYPE DOUBLE",
    ):
        spark.sql(f"ALTER TABLE {table} {words}")
    same_rows(spark, table)
    spark.sql(
        f"INSERT INTO {table} SELECT 2, 'extra', 'c', 'a', 3.25, named_struct('z', 0.5D, 'xx', 5L, 'y', 7), "
        "array(named_struct('p', 5L, 'r', 'r'), NULL), map('k', named_struct('q', 1D)), 9"
    )
    assert len(same_everywhere(spark, table)) == 2
    # A filter reaches files by name: it must not ask an old file for what another column holds there.
    assert len(same_rows(spark, table, where="a = 'a'")) == 1
    assert len(same_rows(spark, table, where="ratio = 9")) == 1
    assert len(same_rows(spark, table, where="ratio IS NULL")) == 1
    assert len(same_rows(spark, table, where="s.y = 7")) == 1


def test_a_struct_whose_fields_were_all_added_later_is_there(lake: Lake, spark: Any):
    """Iceberg's runtime takes it for null: files have no column that tells that it is there."""
    table = make(spark, lake, "hollow", "id INT, s STRUCT<x: INT>, l ARRAY<STRUCT<p: INT>>")
    there = "named_struct('x', 1), array(named_struct('p', 1), NULL)"
    spark.sql(f"INSERT INTO {table} SELECT 1, {there} UNION ALL SELECT 2, NULL, NULL")
    for words in (
        "ADD COLUMN s.y STRING",
        "DROP COLUMN s.x",
        "ADD COLUMN l.element.q INT",
        "DROP COLUMN l.element.p",
    ):
        spark.sql(f"ALTER TABLE {table} {words}")
    rows = calve.read(spark, table).orderBy("id").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        {"id": 1, "s": {"y": None}, "l": [{"q": None}, None]},
        {"id": 2, "s": None, "l": None},
    ]


def test_a_table_of_format_version_1_is_read(lake: Lake, spark: Any):
    table = make(spark, lake, "first_version", COLUMNS, "PARTITIONED BY (part)", "'format-version'='1'")
    fill(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD part")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    fill(spark, table, 20)
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert len(same_everywhere(spark, table)) == 39
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='2', {MERGE_ON_READ})")
    spark.sql(f"DELETE FROM {table} WHERE id = 4")
    assert len(same_everywhere(spark, table)) == 38


def test_every_type_in_several_specs_with_nulls_is_read_after_deletes_of_every_kind(lake: Lake, spark: Any):
    """Places, whole files and whole partitions that went, also where nothing but metadata tells of it."""
    table = make(
        spark,
        lake,
        "everything",
        "id BIGINT, part STRING, ok BOOLEAN, f FLOAT, price DECIMAL(20, 4), raw BINARY, day DATE, "
        "at TIMESTAMP, local TIMESTAMP_NTZ, l ARRAY<ARRAY<INT>>, "
        "m MAP<STRING, STRUCT<x: DOUBLE, days: ARRAY<DATE>>>",
        "PARTITIONED BY (part)",
        f"'format-version'='2', {MERGE_ON_READ}, 'write.delete.granularity'='partition'",
    )
    types = spark.sparkContext._jvm.org.apache.iceberg.types.Types
    add_columns(spark, table, {"uid": types.UUIDType.get(), "code": types.FixedType.ofLength(2)})
    for first in (0, 120):  # two files of a partition, whose places stand in one
        put_everything(spark, table, first)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(f"DELETE FROM {table} WHERE part = 'p1'")  # all of a partition: no delete file
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD part WITH bucket(3, id)")
    put_everything(spark, table, 40)
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    spark.sql(f"DELETE FROM {table} WHERE part IS NULL AND id < 40")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD months(at)")
    put_everything(spark, table, 80)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')")
    spark.sql(f"DELETE FROM {table} WHERE id % 11 = 0 OR uid IS NULL")
    spark.sql(f"UPDATE {table} SET f = -f WHERE id BETWEEN 82 AND 85")
    by_metadata = "operation = 'delete' AND summary['added-delete-files'] IS NULL"
    assert spark.sql(f"SELECT 1 FROM {table}.snapshots WHERE {by_metadata}").count() == 2
    assert len({row[0] for row in spark.sql(f"SELECT spec_id FROM {table}.files").collect()}) == 3
    assert len(same_everywhere(spark, table)) > 50
    assert same_rows(spark, table, where="part IS NULL")
    assert same_rows(spark, table, where="m['k'].x > 50 AND day > DATE '1970-01-01'")
    spark.sql(f"TRUNCATE TABLE {table}")
    assert same_rows(spark, table) == []


def put_everything(spark: Any, table: str, first: int) -> None:
    """Forty rows, a third of them without a partition, each column null in some."""
    spark.sql(
        f"INSERT INTO {table} SELECT id, IF(id % 3 = 0, NULL, concat('p', id % 3)), id % 2 = 0, "
        "CAST(id / 8 AS FLOAT), CAST(id * 1.0001 AS DECIMAL(20, 4)), CAST(concat('b', id) AS BINARY), "
        "DATE '1969-12-01' + CAST(id AS INT), TIMESTAMP '1969-12-31 23:59:59.999999Z' + INTERVAL 1 DAY * id, "
        "TIMESTAMP_NTZ '1900-01-01 00:00:00.000001', IF(id % 4 = 0, NULL, array(array(1, NULL), NULL)), "
        "map('k', named_struct('x', CAST(id AS DOUBLE), 'days', array(DATE '2024-02-29', NULL)), 'n', NULL), "
        "IF(id % 9 = 0, NULL, format_string('00000000-0000-4000-8000-%012d', id)), "
        f"IF(id % 6 = 0, NULL, X'00FF') FROM range({first}, {first + 40})"
    )


def test_files_without_ids_are_read_by_the_names_of_the_mapping(lake: Lake, spark: Any, tmp_path: Any):
    table = make(
        spark, lake, "imported", "id BIGINT, day DATE, name STRING, s STRUCT<x: INT>", "PARTITIONED BY (day)"
    )
    rows = (
        "SELECT id, concat('n', id) AS name, named_struct('x', CAST(id AS INT)) AS s, "
        "DATE '2024-02-29' AS day FROM range(5)"
    )
    spark.sql(rows).write.partitionBy("day").parquet(str(tmp_path / "files"))
    call(spark, "add_files", "imported", f"source_table => '`parquet`.`{tmp_path / 'files'}`'")
    assert len(same_rows(spark, table)) == 5
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN s.x TO xx")
    spark.sql(f"INSERT INTO {table} SELECT 9, DATE '2024-03-01', 'nine', named_struct('xx', 9)")
    assert len(same_everywhere(spark, table)) == 6


def test_a_column_has_its_default_in_files_that_lack_it(lake: Lake, spark: Any):
    table = make(spark, lake, "defaults", "id BIGINT", properties="'format-version'='3'")
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    add_defaults(spark, table, {"i": ("IntegerType", 7), "t": ("StringType", "it's")})
    spark.sql(f"INSERT INTO {table} SELECT 3, NULL, 'other'")
    assert same_rows(spark, table) == [(1, 7, "it's"), (2, 7, "it's"), (3, None, "other")]
    # Not compared: Iceberg's runtime takes files without the column for files full of nulls, and passes over
    # them where it filters.
    assert calve.read(spark, table).where("i = 7").count() == 2
    assert calve.read(spark, table).where("i IS NULL").count() == 1
    assert calve.read(spark, table, where="i = 7").count() == 2
    assert calve.read(spark, table, where="i IS NULL").count() == 1
    assert len(same_rows(spark, table, where="t = 'other'")) == 1
    add_defaults(spark, table, {"b": ("BinaryType", b"\x00\xff")})
    assert len(same_rows(spark, table)) == 3


def add_columns(spark: Any, table: str, columns: dict[str, Any]) -> None:
    """Columns of Iceberg's own types, by its own interface: Spark has no words for them."""
    update = loaded(spark, table).updateSchema()
    for name, type_ in columns.items():
        update = update.addColumn(name, type_)
    update.commit()
    spark.sql(f"REFRESH TABLE {table}")


def loaded(spark: Any, table: str) -> Any:
    jvm = spark.sparkContext._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)


def add_defaults(spark: Any, table: str, columns: dict[str, tuple[str, Any]]) -> None:
    """Columns with defaults, by Iceberg's own interface: its SQL has no words for them."""
    jvm = spark.sparkContext._jvm
    update = loaded(spark, table).updateSchema()
    for name, (kind, value) in columns.items():
        type_ = getattr(jvm.org.apache.iceberg.types.Types, kind).get()
        if isinstance(value, bytes):
            value = jvm.java.nio.ByteBuffer.wrap(value)
        literal = jvm.org.apache.iceberg.expressions.Expressions.lit(value)
        update = update.addColumn(name, type_, None, literal)
    update.commit()
    spark.sql(f"REFRESH TABLE {table}")


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_files_of_another_format_are_refused_with_their_name(lake: Lake, spark: Any, format_: str):
    table = make(spark, lake, f"in_{format_}", "id BIGINT", properties=f"'write.format.default'='{format_}'")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    with pytest.raises(calve.Unreadable, match=f"(?s)\\.{format_} is a file of the format {format_.upper()}"):
        calve.read(spark, table)


def test_names_that_are_hostile_are_taken_as_they_are(lake: Lake, spark: Any):
    table = make(
        spark,
        lake,
        "hostile",
        "id BIGINT, `a.b` STRING, `select` STRING, `back``tick` STRING, `日本` STRING, `_metadata` STRING, "
        "`s p` STRUCT<`x.y`: INT>",
        "PARTITIONED BY (`a.b`)",
        f"'format-version'='2', {MERGE_ON_READ}",
    )
    values = ["a*b", "[x]{y}?", "c:d", "e%2Ff/g h", "\\\\", "ünï", "_hidden", "#"]
    rows = ", ".join(
        f"({n}, '{value}', 's', 'b', 'j', 'm', named_struct('x.y', {n}))" for n, value in enumerate(values)
    )
    spark.sql(f"INSERT INTO {table} VALUES {rows}")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert len(same_everywhere(spark, table)) == len(values) - 1
    assert len(same_rows(spark, table, where="`a.b` = '[x]{y}?'")) == 1
    assert len(same_rows(spark, table, where="`s p`.`x.y` = 5")) == 1


def test_folders_that_are_patterns_to_hadoop_are_read(lake: Lake, spark: Any, tmp_path: Any):
    for number, folder in enumerate(("a[1]b", "c{d,e}f", "g*h", "_i", "j k%20l", "ünï")):
        place = (tmp_path / folder).absolute()
        table = f"{lake.name}.{NAMESPACE}.folder_{number}"
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg LOCATION 'file://{place}' "
            f"TBLPROPERTIES ({MERGE_ON_READ})"
        )
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        spark.sql(f"DELETE FROM {table} WHERE id = 2")
        rows = calve.read(spark, table).collect()
        assert sorted(tuple(row) for row in rows) == [(1, "a"), (3, "c")], folder


def test_tags_and_branches_are_read_by_name(lake: Lake, spark: Any):
    table = make(spark, lake, "named", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    spark.sql(f"ALTER TABLE {table} CREATE TAG eod")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {table}.branch_audit VALUES (2, 'b')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN later STRING")

    def seen(at: Any) -> tuple[list[str], list[int]]:
        frame = calve.read(spark, table, at=at)
        return frame.columns, sorted(row[0] for row in frame.collect())

    first = snapshots_of(spark, table)[0]
    assert seen("eod") == seen("tag:eod") == (["id", "name"], [1])
    assert seen(first) == seen(f"snapshot:{first}") == (["id", "name"], [1])
    assert seen("audit") == seen("branch:audit") == (["id", "name", "later"], [1, 2])
    assert seen(None) == seen("main") == (["id", "name", "later"], [1, 3])
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF 'eod'").columns == ["id", "name"]
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF 'audit'").columns == ["id", "name", "later"]
