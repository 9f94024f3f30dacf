"""The statements of peers at work: as they are printed, with hosts, paths and secrets of this machine.

    Materialize ─▶ Iceberg's REST server behind a login · SeaweedFS, signed as S3 Tables wants it
    CockroachDB ─▶ Iceberg's REST server, by the URL of a sink; and what the shell tells of it
    LaminarDB   ─▶ Iceberg's REST server · Glue · a catalog in memory

Tables are looked at by PyIceberg, and read by Iceberg's own runtime, PyIceberg or DuckDB.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException

from calve.cli.planned import plan_of
from calve.model.errors import CalveError
from calve.model.progress import tag_name
from calve.runtime.spark.job.preview import previews
from tests.support.changefeed.feed import Changefeed
from tests.support.changefeed.history import History, Table
from tests.support.lake import TableAt
from tests.support.peers import CUSTOMERS, ORDERS, OUTPUT, SENSORS, TRADES, TYPED
from tests.support.peers_stage import JOB, PASSWORD, USER, WAREHOUSE, Stage
from tests.support.readers import DuckReader
from tests.support.servers import ministack as stack
from tests.support.servers import seaweedfs as weed
from tests.support.servers.iceberg_rest import IcebergRest
from tests.support.servers.vending import guarded_catalog
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = [pytest.mark.spark, pytest.mark.servers]

INTERVAL = 20 * 60 * 1000
BEGIN = 1_794_787_200_000
"""In milliseconds, as Materialize has times; a multiple of the interval."""
SHOP = Table("orders", (("id", "long"), ("status", "string")), ("id",))
DAYS = ("2026-01-01T10:00:00Z", "2026-01-02T10:00:00Z")
FIRST, SECOND = (datetime.fromisoformat(day).astimezone(UTC) for day in DAYS)


@pytest.fixture(scope="module")
def stage(
    spark: Any,
    seaweedfs: weed.SeaweedFS,
    ministack: stack.Ministack,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """Iceberg's server vends no login here: those of the statements must do."""
    folder = tmp_path_factory.mktemp("peers")
    rest = IcebergRest.on_s3(WAREHOUSE, seaweedfs.s3_uri, weed.KEY, weed.SECRET, weed.REGION)
    with (
        pytest.MonkeyPatch.context() as patch,
        rest,
        guarded_catalog(rest.uri, USER, PASSWORD) as guarded,
    ):
        patch.setenv("PEER_PASSWORD", PASSWORD)
        patch.setenv("PEER_STORE_SECRET", weed.SECRET)
        yield Stage(spark, folder, rest, guarded, seaweedfs, ministack)


# ---------------------------------------------------------------- Materialize


def change(time: int, diff: int, id: int, v: str) -> dict[str, Any]:
    return {"mz_timestamp": BEGIN + time, "mz_progressed": False, "mz_diff": diff, "id": id, "v": v}


def progress(time: int) -> dict[str, Any]:
    return {"mz_timestamp": BEGIN + time, "mz_progressed": True}


VIEW = """CREATE SOURCE my_favorite_materialized_view (id long, v string)
    FROM FILES (PATH = 'view', FILES MAX = 1) KEY (id) ENVELOPE materialize;
"""
CHANGES = (
    (change(1, 1, 1, "a"), change(2, 1, 2, "a"), progress(INTERVAL + 1)),
    (
        change(INTERVAL + 1, -1, 1, "a"),
        change(INTERVAL + 1, 1, 1, "b"),
        change(INTERVAL + 2, -1, 2, "a"),
        progress(2 * INTERVAL + 1),
    ),
    (change(2 * INTERVAL + 2, 1, 3, "a"), progress(3 * INTERVAL - 1)),
)


@pytest.fixture(scope="module")
def materialized(stage: Stage) -> Stage:
    """A subscription in three files, a micro-batch each; the last interval is not over."""
    for number, rows in enumerate(CHANGES):
        stage.write("view", f"{number}.json", *rows)
    return stage


def test_materialize_a_view_goes_to_a_rest_catalog_a_snapshot_an_interval(materialized: Stage) -> None:
    """The key is the source's; user and password are asked for at every request; the store has its own
    login."""
    stage = materialized
    stage.run(VIEW + stage.materialized())
    table = stage.load("namespace_name", "table_name")
    shown = {
        int(summary_of(one)["calve.frontier"]): stage.rows("namespace_name.table_name", one.snapshot_id)
        for one in snapshots_of_main(table)
    }
    assert shown == {BEGIN + INTERVAL: [(1, "a"), (2, "a")], BEGIN + 2 * INTERVAL: [(1, "b")]}
    assert table.schema().identifier_field_names() == {"id"}
    assert len(set(stage.guarded.authorizations)) == 1


def test_materialize_a_wrong_password_is_told_and_not_shown(
    materialized: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_PASSWORD", "canary-that-is-wrong")
    with pytest.raises(CalveError, match="refuses the login") as error:
        materialized.run(VIEW + materialized.materialized())
    assert "user and password" in error.value.hint
    assert "canary" not in str(error.value) + error.value.hint


def test_materialize_the_same_sink_goes_to_a_table_bucket_by_signed_requests(materialized: Stage) -> None:
    materialized.run(VIEW + materialized.materialized(type="s3table"))
    assert materialized.rows("namespace_name.table_name", catalog="tables") == [(1, "b")]


def test_materialize_a_catalog_whose_words_say_its_type_needs_what_it_needs(
    materialized: Stage,
) -> None:
    stage = materialized
    sink = "CREATE SINK typed FROM my_favorite_materialized_view TO ICEBERG CATALOG foo NAMESPACE n TABLE t;"
    with pytest.raises(CalveError, match="a rest catalog lacks"):
        list(previews(stage.job(f"{VIEW}{TYPED.text};{sink}").prepare("typed")))
    typed = f"{TYPED.text} (URI = '{stage.rest.uri}');"
    (found,) = previews(stage.job(VIEW + typed + sink).prepare("typed"))
    assert found.catalog.startswith("rest")


# ---------------------------------------------------------------- CockroachDB


@pytest.fixture(scope="module")
def shop(stage: Stage) -> Changefeed:
    """A changefeed that was written to its table."""
    feed = Changefeed(History.of(3, SHOP), seed=3, nodes=2)
    stage.put(feed.run(3, transactions=8))
    stage.run(stage.changefeed())
    return feed


def test_cockroachdb_a_url_gets_a_snapshot_a_resolved_timestamp(stage: Stage, shop: Changefeed) -> None:
    """P1. Rows are deleted by the columns of `equality_delete_by`."""
    table = stage.load("shop", "orders")
    snapshots = snapshots_of_main(table)
    assert len(snapshots) > 1
    for one in snapshots:
        frontier = int(summary_of(one)["calve.frontier"])
        truth = ((row["id"], row["status"]) for row in shop.state("orders", frontier - 1).values())
        assert stage.rows("shop.orders", one.snapshot_id) == sorted(truth, key=repr)
        assert summary_of(one)["crdb.job_id"] == JOB
    assert table.schema().identifier_field_names() == {"id"}


def test_cockroachdb_the_shell_tells_of_a_changefeed_and_of_all_that_is_defined(
    stage: Stage, shop: Changefeed
) -> None:
    last = snapshots_of_main(stage.load("shop", "orders"))[-1]
    (stage.folder / "shop.sql").write_text(stage.changefeed())

    def told(*statements: str) -> list[Any]:
        words = ("sql", "shop.sql", "--json", "-c", ";".join(statements))
        call = [sys.executable, "-m", "calve.cli.main", *words]
        done = subprocess.run(call, cwd=stage.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert weed.SECRET not in done.stdout + done.stderr
        return list(json.loads(done.stdout)["answers"])

    sinks, sources, connections, created, described, plan, feed, kept, none = told(
        "SHOW SINKS",
        "SHOW SOURCES",
        "SHOW CONNECTIONS",
        "SHOW CREATE SINK feed",
        "DESCRIBE feed",
        "EXPLAIN SINK feed",
        f"SHOW CHANGEFEED {JOB}",
        "DROP SINK feed KEEP PROGRESS",
        "SHOW SINKS",
    )
    place = stage.url.partition("?")[0]
    assert sinks == [{"sink": "feed", "from": "shop", "table": f"{place}?…"}]
    assert sources == [{"source": "shop", "reads": "COCKROACHDB CHANGEFEED", "key": "id"}]
    assert connections == [{"connection": "iceberg_s3_conn", "to": "AWS"}]
    assert f"INTO '{place}?warehouse=***&" in created["done"], "a URL may have a login in it"
    assert created["done"].endswith("USING AWS CONNECTION iceberg_s3_conn;")
    assert [(row["column"], row["type"], row["key"]) for row in described] == [
        ("id", "long", "key"),
        ("status", "string", ""),
    ]
    (table,) = plan["tables"]
    assert (table["action"], table["table"]) == ("nothing", "shop.orders")
    assert [(row["last committed epoch"], row["snapshot id"]) for row in feed] == [
        (summary_of(last)["crdb.resolved_hlc"], str(last.snapshot_id))
    ]
    assert kept == {"done": "The sink feed is dropped. Its table still knows how far it is."}
    assert none == []

    tag = tag_name("shop.orders")
    assert tag in stage.load("shop", "orders").refs()
    dropped, unknown = told("DROP SINK feed", "SHOW CHANGEFEED 4711")
    assert dropped["done"].startswith("The sink feed is dropped.\ncalve.shop.orders has forgotten it.")
    assert unknown == []
    assert tag not in stage.load("shop", "orders").refs()


# ---------------------------------------------------------------- LaminarDB


def test_laminardb_trades_are_appended_by_the_day(stage: Stage) -> None:
    source = "CREATE SOURCE processed_trades (id long, event_time timestamptz) FROM FILES (PATH = 'trades');"
    stage.write("trades", "1.json", *({"id": n, "event_time": day} for n, day in enumerate(DAYS)))
    text = source + stage.told(TRADES)
    stage.run(text)
    assert stage.run(text)["trade_archive"].snapshots == 0, "'exactly-once'"
    table = stage.load("analytics", "prod", "trades")
    assert stage.rows("analytics.prod.trades") == [(0, FIRST), (1, SECOND)]
    assert [str(field.transform) for field in table.spec().fields] == ["day"]
    assert len(table.inspect.partitions()) == 2
    assert table.location().startswith(WAREHOUSE)
    assert table.format_version == 2


def test_laminardb_orders_go_to_glue(stage: Stage) -> None:
    source = """CREATE SOURCE enriched_orders (order_id long, customer_id long, order_time timestamptz)
        FROM FILES (PATH = 'orders');"""
    stage.write("orders", "1.json", {"order_id": 1, "customer_id": 7, "order_time": DAYS[0]})
    stage.run(source + stage.told(ORDERS))
    login = {"client.access-key-id": stack.KEY, "client.secret-access-key": stack.SECRET}
    region = {"client.region": stack.REGION, "glue.endpoint": stage.ministack.uri}
    catalog = load_catalog("glue", type="glue", **login, **region, **stage.seaweedfs.storage())
    table = catalog.load_table("analytics.orders")
    assert table.scan().to_arrow().to_pylist() == [{"order_id": 1, "customer_id": 7, "order_time": FIRST}]
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[16]"]
    assert table.location().startswith(WAREHOUSE)


def test_laminardb_customers_are_upserted_and_deleted_by_their_columns(stage: Stage) -> None:
    source = """CREATE SOURCE customer_changes (customer_id long, name string, _op string)
        FROM FILES (PATH = 'customers');"""
    stage.write("customers", "1.json", *({"customer_id": n, "name": "a", "_op": "I"} for n in (1, 2)))
    text = source + stage.told(CUSTOMERS)
    stage.run(text)
    stage.write(
        "customers",
        "2.json",
        {"customer_id": 1, "name": "b", "_op": "U"},
        {"customer_id": 2, "name": None, "_op": "D"},
    )
    stage.run(text)
    assert stage.rows("analytics.customers") == [(1, "b")]
    first, last = snapshots_of_main(stage.load("analytics", "customers"))
    assert stage.rows("analytics.customers", first.snapshot_id) == [(1, "a"), (2, "a")]
    assert summary_of(last)["added-equality-deletes"] == "2"


def test_laminardb_readings_are_in_three_partitions_and_take_a_new_column(stage: Stage) -> None:
    source = """CREATE SOURCE sensor_events (device_id long, region string, event_time timestamptz)
        FROM FILES (PATH = 'readings');"""
    reading = {"device_id": 1, "region": "eu", "event_time": DAYS[0]}
    stage.write("readings", "1.json", reading)
    text = source + stage.told(SENSORS)
    (planned,) = stage.job(text).prepare("sensor_data").tables()
    assert planned.config is not None
    assert planned.config.sink.target_file_bytes == 256 * 1024 * 1024
    stage.run(text)
    stage.write("readings", "2.json", {**reading, "unit": "C"})
    stage.run(text.replace("event_time timestamptz)", "event_time timestamptz, unit string)"))
    assert stage.rows("iot.sensors.readings") == [(1, "eu", FIRST, "C"), (1, "eu", FIRST, None)]
    spec = stage.load("iot", "sensors", "readings").spec()
    assert [str(field.transform) for field in spec.fields] == ["day", "identity", "bucket[32]"]


def test_laminardb_a_catalog_in_memory_is_for_one_run_and_says_so(stage: Stage, duckdb: DuckReader) -> None:
    source = "CREATE SOURCE test_stream (id long) FROM FILES (PATH = 'stream');"
    stage.write("stream", "1.json", {"id": 1})
    warehouse = stage.folder / "warehouse"
    text = source + OUTPUT.told({"/tmp/iceberg-warehouse": str(warehouse)})
    plan = plan_of(stage.job(text), "dev_output")
    assert [note.partition(":")[0] for note in plan.notes] == [
        "'at-least-once' was asked for",
        "The catalog is in memory",
    ]
    stage.run(text)
    metadata = max((warehouse / "dev" / "output" / "metadata").glob("*.metadata.json"))
    found = json.loads(metadata.read_text())
    at = TableAt("output", found["location"], metadata.as_uri())
    assert duckdb.read(at, found["current-snapshot-id"]) == pa.table({"id": [1]})
    stage.write("stream", "2.json", {"id": 2})
    with pytest.raises(StreamingQueryException, match="is not in the catalog"):
        stage.run(text)
