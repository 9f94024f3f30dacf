"""Materialize, live: a subscription by the PostgreSQL protocol, into a table, stopped and started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calve
from tests.support.lake import NAMESPACE, Lake
from tests.support.servers.materialize import PASSWORD, MaterializeServer, Relation, materialize_server
from tests.support.truth import rows_of, snapshots_of_main, summary_of

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def server() -> Iterator[MaterializeServer]:
    relation = Relation('"public"."orders"', [("id", 20, -1), ("note", 25, -1)])
    with materialize_server(relation) as running:
        yield running


def test_a_subscription_goes_into_a_table_exactly_once_over_restarts(
    server: MaterializeServer, spark: Any, lake: Lake, tmp_path: Path, table_name: str, capfd: Any
) -> None:
    name = table_name[:40]

    def run() -> dict[int, list[tuple[int, str]]]:
        feed = calve.read_stream(spark).materialize(server.uri, "public.orders", key=["id"])
        query = (
            calve.write_stream(feed)
            .catalog(lake.name, type="sql", uri=f"sqlite:///{lake.catalog_file}", warehouse=lake.warehouse)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .to_table(f"{lake.name}.{NAMESPACE}.{name}")
        )
        query.awaitTermination()
        query.explain(extended=True)
        table = lake.load(name)
        return {
            int(summary_of(one)["calve.frontier"]): sorted(
                (row["id"], row["note"]) for row in rows_of(table, one.snapshot_id)
            )
            for one in snapshots_of_main(table)
        }

    server.relation.put(20, (10, 1, ("1", "a")), (11, 1, ("2", "b")))
    assert run() == {20: [(1, "a"), (2, "b")]}
    # What happened while nobody listened: an update, a delete, an insert that is gone again.
    server.relation.put(
        30, (25, -1, ("1", "a")), (25, 1, ("1", "A")), (26, 1, ("3", "c")), (27, -1, ("3", "c"))
    )
    server.relation.put(40, (35, -1, ("2", "b")))
    assert run()[40] == [(1, "A")]
    asked = [one for one in server.seen if "AS OF" in one]
    assert [one.partition("WITH ")[2] for one in dict.fromkeys(asked)] == [
        "(PROGRESS, SNAPSHOT = true) AS OF 19 UP TO 20",
        "(PROGRESS, SNAPSHOT = false) AS OF 19 UP TO 40",
    ]
    # P10: neither plans nor the checkpoint nor what was printed has the password.
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert PASSWORD.encode() not in b"".join(kept)
    printed = "".join(capfd.readouterr())
    assert "calve-materialize" in printed, "the plans"
    assert PASSWORD not in printed
