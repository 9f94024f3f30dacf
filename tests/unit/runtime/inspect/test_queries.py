"""A snapshot in the words of engines: names and texts are quoted, never spliced."""

from __future__ import annotations

import pytest

from calve.config.catalog import CatalogConfig
from calve.runtime.addresses import Address
from calve.runtime.inspect.queries import queries

LAKE = CatalogConfig(name="lake", warehouse="/w")


def test_plain_names_stay_as_they_are() -> None:
    found = queries(Address(LAKE, ("sales", "orders")), "file:///w/1.metadata.json", 77, "12")
    assert found == {
        "duckdb": "SELECT * FROM iceberg_scan('file:///w/1.metadata.json', snapshot_from_id = 77::UBIGINT);",
        "spark": "SELECT * FROM lake.sales.orders VERSION AS OF 77;",
        "trino": "SELECT * FROM lake.sales.orders FOR VERSION AS OF 77;",
        "calve": 'calve.read(spark, "lake.sales.orders", at="12", catalog={"type": "sql", '
        '"uri": "sqlite:////w/catalog.db", "warehouse": "/w"})',
    }


@pytest.mark.parametrize(
    "parts, spark, trino",
    [
        (("my sales", "or`ders"), "lake.`my sales`.`or``ders`", 'lake."my sales"."or`ders"'),
        (("a", "b", "t"), "lake.a.b.t", 'lake."a.b".t'),
        (("a", 'q"x; DROP TABLE y'), 'lake.a.`q"x; DROP TABLE y`', 'lake.a."q""x; DROP TABLE y"'),
        (("größe", "1st"), "lake.`größe`.`1st`", 'lake."größe"."1st"'),
    ],
)
def test_other_names_are_quoted_as_each_engine_quotes_them(
    parts: tuple[str, ...], spark: str, trino: str
) -> None:
    found = queries(Address(LAKE, parts), "file:///w/it's.json", 7, 'a"b')
    assert found["spark"] == f"SELECT * FROM {spark} VERSION AS OF 7;"
    assert found["trino"] == f"SELECT * FROM {trino} FOR VERSION AS OF 7;"
    assert "iceberg_scan('file:///w/it''s.json', " in found["duckdb"]
    assert ', at="a\\"b", catalog={' in found["calve"]
