"""The statements of peers: each is read as it is printed, and means what it says there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calve.config.sink import SinkConfig
from calve.model.errors import CalveError
from calve.sql.connect import catalog_options, store_options
from calve.sql.defined import Definitions
from calve.sql.read import read
from calve.sql.sink import SinkAsked, sink_of
from calve.sql.tree import (
    CreateConnection,
    CreateSink,
    CreateSinkTable,
    Option,
    Secret,
    Statement,
    Target,
    Text,
)
from calve.sql.write import write
from tests.support.peers import (
    AWS,
    CATALOG,
    CUSTOMERS,
    ORDERS,
    OUTPUT,
    SENSORS,
    SINK,
    STATEMENTS,
    TRADES,
    TYPED,
    Printed,
)

FOLDER = Path("/pipelines")


def said(**options: str) -> tuple[Option, ...]:
    return tuple(
        Option(name.replace("__", ".").replace("_", " "), Text(value)) for name, value in options.items()
    )


def catalog(type: str) -> CreateConnection:
    return CreateConnection(
        "iceberg_catalog_connection",
        Target.ICEBERG,
        (
            *said(type=type, uri="https://my.awesome.cat:8081/api/catalog", user="materialize"),
            Option("password", Secret("iceberg_pass")),
            *said(aws_connection="...", warehouse="..."),
        ),
    )


def table(name: str, source: str, **options: str) -> CreateSinkTable:
    return CreateSinkTable(name, source, said(connector="iceberg", **options))


LAKE = "s3://data-lake/warehouse"
READ: dict[Printed, list[Statement]] = {
    CATALOG: [catalog("rest"), catalog("s3table")],
    TYPED: [CreateConnection("foo", Target.ICEBERG, said(type="rest"))],
    AWS: [
        CreateConnection(
            "iceberg_s3_conn",
            Target.AWS,
            said(access_key_id="ABC123", secret_access_key="....", region="eu-west-1"),
        )
    ],
    SINK: [
        CreateSink(
            "iceberg_sink",
            "my_favorite_materialized_view",
            "iceberg_catalog_connection",
            None,
            "namespace_name",
            "table_name",
            "iceberg_s3_conn",
            options=said(commit_interval="20m"),
        )
    ],
    TRADES: [
        table(
            "trade_archive",
            "processed_trades",
            catalog__type="rest",
            catalog__uri="http://iceberg-catalog:8181",
            warehouse=LAKE,
            namespace="analytics.prod",
            table__name="trades",
            partition__spec="DAYS(event_time)",
            delivery__guarantee="exactly-once",
        )
    ],
    ORDERS: [
        CreateSinkTable(
            "orders_iceberg",
            "enriched_orders",
            (
                *said(
                    connector="iceberg",
                    catalog__type="glue",
                    catalog__uri="arn:aws:glue:us-east-1:123456789:catalog",
                    warehouse="s3://lakehouse/warehouse",
                    namespace="analytics",
                    table__name="orders",
                    partition__spec="DAYS(order_time), BUCKET(16, customer_id)",
                    delivery__guarantee="exactly-once",
                ),
                Option("storage.aws_region", Text("us-east-1")),
            ),
        )
    ],
    CUSTOMERS: [
        table(
            "customer_snapshot",
            "customer_changes",
            catalog__type="rest",
            catalog__uri="http://polaris:8181",
            warehouse=LAKE,
            namespace="analytics",
            table__name="customers",
            write__mode="upsert",
            equality__delete__columns="customer_id",
            delivery__guarantee="exactly-once",
        )
    ],
    SENSORS: [
        table(
            "sensor_data",
            "sensor_events",
            catalog__type="rest",
            catalog__uri="http://nessie:19120/api/v1",
            warehouse="s3://iot-lake/warehouse",
            namespace="iot.sensors",
            table__name="readings",
            partition__spec="DAYS(event_time), IDENTITY(region), BUCKET(32, device_id)",
            target__file__size="268435456",
            schema__evolution="true",
        )
    ],
    OUTPUT: [
        table(
            "dev_output",
            "test_stream",
            catalog__type="memory",
            warehouse="/tmp/iceberg-warehouse",
            namespace="dev",
            table__name="output",
            delivery__guarantee="at-least-once",
        )
    ],
}
FORMS = [
    pytest.param(text, tree, id=f"{printed}-{number}")
    for printed in STATEMENTS
    for number, (text, tree) in enumerate(zip(printed.forms, READ[printed], strict=True))
]


@pytest.mark.parametrize("text, tree", FORMS)
def test_a_statement_of_a_peer_is_read_as_printed_and_what_is_written_is_read_as_the_same(
    text: str, tree: Statement
) -> None:
    assert read(text) == [tree]
    assert read(write(tree)) == [tree]


def test_the_peers_stand_together_in_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(pipeline(monkeypatch).sinks) == {
        "iceberg_sink",
        "trade_archive",
        "orders_iceberg",
        "customer_snapshot",
        "sensor_data",
        "dev_output",
    }


# ---------------------------------------------------------------- what they mean


def pipeline(monkeypatch: pytest.MonkeyPatch, *, form: int = 0) -> Definitions:
    """All statements, one alternative of each, and what they speak of."""
    monkeypatch.setenv("PEER_PASSWORD", "of the peer")
    sources = [tree.source for trees in READ.values() for tree in trees if hasattr(tree, "source")]
    text = [
        "CREATE SECRET iceberg_pass FROM ENV 'PEER_PASSWORD'",
        """CREATE CONNECTION "..." TO AWS (REGION = 'eu-west-1')""",
        *(f"CREATE SOURCE {name} (id long) FROM FILES (PATH = '{name}')" for name in sources),
        *(one.forms[min(form, len(one.forms) - 1)] for one in STATEMENTS),
    ]
    return Definitions.of_text(";\n".join(text), FOLDER)


@pytest.mark.parametrize("form, kind", [(0, "rest"), (1, "s3table")])
def test_a_connection_has_the_options_of_both_kinds_of_catalogs(
    form: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pipeline(monkeypatch, form=form)
    assert catalog_options(found.connections["iceberg_catalog_connection"], found) == {
        "catalog.type": kind,
        "catalog.uri": "https://my.awesome.cat:8081/api/catalog",
        "warehouse": "...",
        "catalog.prop.user": "materialize",
        "catalog.prop.password": "of the peer",
        "catalog.prop.client.region": "eu-west-1",
    }
    assert store_options(found.connections["iceberg_s3_conn"], found) == {
        "storage.s3.access-key-id": "ABC123",
        "storage.s3.secret-access-key": "....",
        "storage.s3.region": "eu-west-1",
    }


def test_a_connection_whose_words_say_its_type_takes_the_options_of_that_type() -> None:
    text = f"{TYPED.text} (URI = 'http://host', TOKEN = 'x',)"
    found = Definitions.of_text(text, FOLDER)
    assert catalog_options(found.connections["foo"], found) == {
        "catalog.type": "rest",
        "catalog.uri": "http://host",
        "catalog.prop.token": "x",
    }
    with pytest.raises(CalveError, match="REST says the type already") as error:
        read(f"{TYPED.text} (TYPE = 'glue')")
    assert "Leave one of the two out." in error.value.hint


def asked(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> SinkAsked:
    found = pipeline(monkeypatch)
    (tree,) = READ[printed]
    assert isinstance(tree, CreateSink | CreateSinkTable)
    return sink_of(found.sinks[tree.name], found)


def config(one: SinkAsked) -> SinkConfig:
    *namespace, name = one.table.replace("`", "").split(".")[1:]
    return SinkConfig.from_options({**one.options, "namespace": ".".join(namespace), "table.name": name})


MEANT: dict[Printed, tuple[str, dict[str, Any]]] = {
    SINK: ("`iceberg_catalog_connection`.`namespace_name`.`table_name`", {"mode": "append"}),
    TRADES: ("`calve`.`analytics`.`prod`.`trades`", {"mode": "append", "partition": "day(event_time)"}),
    ORDERS: (
        "`calve`.`analytics`.`orders`",
        {"partition": "day(order_time), bucket(16, customer_id)"},
    ),
    CUSTOMERS: ("`calve`.`analytics`.`customers`", {"mode": "upsert", "key": ("customer_id",)}),
    OUTPUT: ("`calve`.`dev`.`output`", {"mode": "append"}),
}


@pytest.mark.parametrize("printed", MEANT, ids=str)
def test_a_sink_of_a_peer_means_what_its_options_say(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, wanted = MEANT[printed]
    one = asked(printed, monkeypatch)
    assert one.table == place
    found = config(one)
    shown = {"mode": str(found.mode), "key": found.key, "partition": ", ".join(map(str, found.partition))}
    assert {name: shown[name] for name in wanted} == wanted
    assert one.commit_interval == ("20m" if printed is SINK else None)


def test_what_a_person_should_know_of_a_sink_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(OUTPUT, monkeypatch).notes == (
        "'at-least-once' was asked for: a stream is written exactly once, which is more.",
        "The catalog is in memory: it ends with the run. One of type sql keeps the table.",
    )
    assert asked(TRADES, monkeypatch).notes == ()


def test_nessies_own_interface_is_refused_with_the_one_that_it_has_for_iceberg(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(CalveError, match="Nessie's own interface") as error:
        config(asked(SENSORS, monkeypatch))
    assert "http://nessie:19120/iceberg" in error.value.hint


# ---------------------------------------------------------------- LaminarDB: every option


def option(name: str, value: str, **more: str) -> SinkAsked:
    said = {"namespace": "n", "table.name": "t", **more, name: value}
    options = ", ".join(f"'{one}' = '{told}'" for one, told in said.items())
    text = f"""CREATE SOURCE s (id long) FROM FILES (PATH = 's');
        CREATE SINK TABLE x FROM s WITH (connector = 'iceberg', {options})"""
    found = Definitions.of_text(text, FOLDER)
    return sink_of(found.sinks["x"], found)


UPSERT = {"write.mode": "upsert", "equality.delete.columns": "id"}
REST = {"catalog.type": "rest", "catalog.uri": "http://host:8181"}
GLUE = {"catalog.type": "glue", "warehouse": "s3://lake/warehouse"}
HIVE = {"catalog.type": "hive", "warehouse": "/warehouse"}
TAKEN: dict[str, tuple[str, dict[str, str], Any]] = {
    "catalog.type": ("memory", {}, lambda sink: str(sink.catalog.type) == "memory"),
    "catalog.uri": (
        "http://host:8181",
        {"catalog.type": "rest"},
        lambda sink: str(sink.catalog.uri) == "http://host:8181",
    ),
    "warehouse": ("/warehouse", {}, lambda sink: sink.catalog.warehouse == "/warehouse"),
    "partition.spec": ("BUCKET(16, id)", {}, lambda sink: [*map(str, sink.partition)] == ["bucket(16, id)"]),
    "target.file.size": ("134217728", {}, lambda sink: sink.target_file_bytes == 134217728),
    "write.mode": ("append", {}, lambda sink: sink.mode == "append"),
    "equality.delete.columns": ("id", UPSERT, lambda sink: sink.key == ("id",)),
    "delivery.guarantee": ("exactly-once", {}, lambda sink: sink.delivery == "exactly-once"),
    "schema.evolution": ("true", {}, lambda sink: sink.schema_evolution),
    "file.format": ("parquet", {}, lambda sink: True),
    "sort.order": ("id ASC", {}, lambda sink: [one.column for one in sink.sort] == ["id"]),
    "writer.id": ("me", {}, lambda sink: sink.sink_id == "me"),
    "catalog.prop.token": ("x", REST, lambda sink: sink.catalog.reveal()["token"] == "x"),
    "catalog.prop.credential": ("a:b", REST, lambda sink: sink.catalog.reveal()["credential"] == "a:b"),
    "catalog.prop.scope": ("s", REST, lambda sink: sink.catalog.reveal()["scope"] == "s"),
    "catalog.prop.aws_region": ("eu", GLUE, lambda sink: sink.catalog.reveal()["aws_region"] == "eu"),
    "catalog.prop.aws_access_key_id": (
        "k",
        GLUE,
        lambda sink: sink.catalog.reveal()["aws_access_key_id"] == "k",
    ),
    "catalog.prop.aws_secret_access_key": (
        "s",
        GLUE,
        lambda sink: sink.catalog.reveal()["aws_secret_access_key"] == "s",
    ),
    "catalog.prop.thrift_uri": (
        "thrift://host:9083",
        HIVE,
        lambda sink: str(sink.catalog.uri) == "thrift://host:9083",
    ),
    "storage.aws_region": ("eu", GLUE, lambda sink: str(sink.catalog.storage["aws_region"]) == "eu"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_option_is_taken(name: str) -> None:
    value, more, holds = TAKEN[name]
    one = option(name, value, **more)
    assert holds(config(one))
    assert value == "memory" or not one.notes


@pytest.mark.parametrize(
    "name, value, note",
    [
        ("max.buffer.records", "100000", "has no effect here: Spark itself holds rows"),
        ("max.buffer.duration", "60s", "has no effect here: Spark itself holds rows"),
        ("delivery.guarantee", "at-least-once", "a stream is written exactly once"),
        ("maintenance.compaction", "false", "is off, as it is in this release"),
        ("maintenance.expire-snapshots", "false", "is off, as it is in this release"),
    ],
)
def test_an_option_that_changes_nothing_is_taken_with_a_note(name: str, value: str, note: str) -> None:
    one = option(name, value)
    config(one)
    (told,) = one.notes
    assert note in told


@pytest.mark.parametrize(
    "name, value, reason, hint",
    [
        ("file.format", "orc", "which calve does not write", "say 'parquet'"),
        ("file.format", "avro", "which calve does not write", "say 'parquet'"),
        ("maintenance.compaction", "true", "is not there yet", "with another engine"),
        ("maintenance.expire-snapshots", "true", "is not there yet", "with another engine"),
        ("maintenance.snapshot-retention", "168h", "is not there yet", "with another engine"),
        ("max.buffer.records", "many", "'many'", "number"),
    ],
)
def test_an_option_that_would_promise_what_does_not_happen_is_refused(
    name: str, value: str, reason: str, hint: str
) -> None:
    with pytest.raises(CalveError) as error:
        config(option(name, value))
    assert reason in error.value.message
    assert hint in error.value.hint
