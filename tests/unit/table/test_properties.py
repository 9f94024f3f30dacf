"""Table properties: read as Iceberg's own writers read them, or refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.model.errors import ConfigError
from calve.table.properties import Metrics, column_metrics, file_properties
from calve.table.schema import to_iceberg
from calve.writer.plan import FileSettings

NONE, COUNTS, FULL, T16 = Metrics("none"), Metrics("counts"), Metrics("full"), Metrics("truncate", 16)
SCHEMA = to_iceberg(
    pa.schema(
        [
            ("id", pa.int64()),
            ("point", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])),
            ("attributes", pa.map_(pa.string(), pa.int64())),
            ("name", pa.string()),
        ]
    )
)
DEFAULT = "write.metadata.metrics.default"


def modes(properties: dict[str, str], bounded: frozenset[str] = frozenset()) -> dict[str, Metrics]:
    found = column_metrics(properties, SCHEMA, bounded)
    return {str(SCHEMA.find_column_name(field_id)): mode for field_id, mode in found.items()}


def test_every_leaf_is_truncated_at_16_where_nothing_is_said() -> None:
    leaves = ["id", "name", "point.x", "point.tags.element", "attributes.key", "attributes.value"]
    assert modes({}) == dict.fromkeys(leaves, T16)


def test_a_default_and_a_column_of_its_own() -> None:
    found = modes(
        {
            DEFAULT: "Counts",
            "write.metadata.metrics.column.name": "truncate(40)",
            "write.metadata.metrics.column.point.tags.element": "full",
        }
    )
    assert found["id"] == COUNTS
    assert found["name"] == Metrics("truncate", 40)
    assert found["point.tags.element"] == FULL


def test_key_and_sort_columns_keep_bounds_unless_they_say_otherwise_themselves() -> None:
    bounded = frozenset({"id", "name"})
    assert modes({DEFAULT: "none"}, bounded)["id"] == T16
    assert modes({DEFAULT: "counts"}, bounded)["id"] == T16
    assert modes({DEFAULT: "full"}, bounded)["id"] == FULL
    own = modes({DEFAULT: "none", "write.metadata.metrics.column.id": "counts"}, bounded)
    assert (own["id"], own["name"], own["point.x"]) == (COUNTS, T16, NONE)


def test_beyond_the_limit_of_inferred_columns_nothing_is_kept() -> None:
    limit = {"write.metadata.metrics.max-inferred-column-defaults": "3"}
    found = modes(limit)
    assert [name for name, mode in found.items() if mode == T16] == ["id", "name", "point.x"]
    assert modes(limit, frozenset({"attributes.key"}))["attributes.key"] == T16
    assert modes({**limit, DEFAULT: "full"})["attributes.value"] == FULL


def test_a_table_of_a_hundred_and_fifty_columns_keeps_a_hundred() -> None:
    wide = to_iceberg(pa.schema([(f"c{n}", pa.int32()) for n in range(150)]))
    found = list(column_metrics({}, wide, frozenset({"c149"})).values())
    assert found == [T16] * 100 + [NONE] * 49 + [T16]


@pytest.mark.parametrize("value", ["", "some", "truncate", "truncate(0)", "truncate(-1)", "truncate(x)"])
def test_a_metrics_mode_that_cannot_be_followed_is_refused_by_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"'write\.metadata\.metrics\.column\.id'"):
        modes({"write.metadata.metrics.column.id": value})


def test_a_table_that_sets_nothing_leaves_the_writers_own_settings() -> None:
    assert FileSettings(**file_properties({"owner": "ana"})) == FileSettings()


def test_sizes_and_compression_reach_the_writer() -> None:
    settings = FileSettings(
        **file_properties(
            {
                "write.target-file-size-bytes": "1000000",
                "write.parquet.row-group-size-bytes": "2000000",
                "write.parquet.row-group-limit": "5000",
                "write.parquet.page-size-bytes": "4096",
                "write.parquet.dict-size-bytes": "8192",
                "write.parquet.compression-codec": "GZIP",
                "write.parquet.compression-level": "6",
            }
        )
    )
    assert settings == FileSettings(1000000, 5000, 2000000, 4096, True, 8192, "gzip", 6)


@pytest.mark.parametrize(
    "properties, codec, level",
    [
        ({"codec": "zstd"}, "zstd", None),
        ({"codec": "uncompressed"}, "none", None),
        ({"codec": "snappy", "level": "3"}, "snappy", None),
        ({"level": "19"}, "zstd", 19),
    ],
)
def test_a_level_belongs_to_its_codec(properties: dict[str, str], codec: str, level: int | None) -> None:
    named = {f"write.parquet.compression-{name}": value for name, value in properties.items()}
    settings = FileSettings(**file_properties(named))
    assert (settings.compression, settings.compression_level) == (codec, level)


def test_what_a_user_sets_goes_over_what_the_table_sets() -> None:
    properties = {
        "write.target-file-size-bytes": "1000000",
        "write.parquet.compression-codec": "zstd",
        "write.parquet.compression-level": "19",
    }
    found = file_properties(properties, {"target_file_bytes": 5, "compression": "gzip"})
    assert found == {"target_file_bytes": 5, "compression": "gzip"}
    leveled = file_properties(properties, {"compression_level": 1})
    assert leveled == {"target_file_bytes": 1000000, "compression": "zstd", "compression_level": 1}


@pytest.mark.parametrize(
    "name, value",
    [
        ("write.target-file-size-bytes", "128MB"),
        ("write.target-file-size-bytes", "0"),
        ("write.parquet.page-size-bytes", "-1"),
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.compression-level", "23"),
        ("write.metadata.metrics.max-inferred-column-defaults", "many"),
    ],
)
def test_a_property_that_cannot_be_followed_is_refused_by_name(name: str, value: str) -> None:
    read = modes if "metrics" in name else file_properties
    with pytest.raises(ConfigError) as refused:
        read({name: value})
    assert repr(name) in refused.value.message
    assert refused.value.hint
