"""PostgreSQL, Debezium, Kafka, calve: the tables are PostgreSQL's, and no snapshot shows half a transaction.

    two connections, transfers that interleave ──▶ accounts, ledger ──Debezium──▶ topics ──calve──▶ tables

A transfer takes from one account, gives to another and writes both down: the sum of all accounts is 0 in
every snapshot, and an account is what the ledger says of it. Debezium is killed and sends events again; calve
is stopped between its micro-batches, which are cut anywhere.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import calve
from tests.support.lake import NAMESPACE, Lake
from tests.support.postgres import postgres
from tests.support.readers import read_snapshot
from tests.support.servers.debezium import Debezium
from tests.support.servers.kafka import Kafka
from tests.support.truth import snapshots_of_main, summary_of

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

ACCOUNTS = 6
_WAIT_S = 60


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres(wal_level="logical") as uri:
        yield uri


@pytest.fixture(scope="module")
def debezium(kafka: Kafka) -> Iterator[Debezium]:
    with Debezium(kafka.bootstrap) as server:
        yield server


class Bank:
    """A schema of its own in the database, and its connector."""

    def __init__(self, name: str, uri: str, kafka: Kafka, debezium: Debezium, **settings: str) -> None:
        self.name, self.uri, self.kafka, self.debezium = name, uri, kafka, debezium
        self.chance = random.Random(name)
        self.transfers = 0
        with self.connection() as connection:
            connection.execute(f"create schema {name}")
            connection.execute(
                f"create table {name}.accounts (id int primary key, balance numeric(12,2) not null)"
            )
            connection.execute(
                f"create table {name}.ledger (transfer int, side int, account int, amount numeric(12,2), "
                "at timestamptz default now(), primary key (transfer, side))"
            )
            connection.execute(
                f"insert into {name}.accounts select n, 0 from generate_series(1, {ACCOUNTS}) n"
            )
        for table in ("accounts", "ledger"):
            kafka.create(f"{name}.{name}.{table}", partitions=2)
        kafka.create(f"{name}.transaction")
        debezium.connect(name, uri, schema_include_list=name, **settings)

    @property
    def topics(self) -> list[str]:
        return [f"{self.name}.{self.name}.{table}" for table in ("accounts", "ledger")]

    def connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.uri)

    def work(self, rounds: int) -> None:
        """Pairs of transfers on two connections, statement by statement in turn."""
        with self.connection() as one, self.connection() as two:
            for _ in range(rounds):
                ids = self.chance.sample(range(1, ACCOUNTS + 1), 4)
                pairs = [self._steps(ids[:2]), self._steps(ids[2:])]
                while any(pairs):
                    number = self.chance.choice([n for n in (0, 1) if pairs[n]])
                    (one, two)[number].execute(pairs[number].pop(0))
                for connection in self.chance.sample([one, two], 2):
                    connection.commit()

    def _steps(self, pair: list[int]) -> list[str]:
        self.transfers += 1
        amount = self.chance.randrange(1, 999) / 100
        steps = []
        for side, (account, sign) in enumerate(zip(pair, (-1, 1), strict=True)):
            steps += [
                f"update {self.name}.accounts set balance = balance + {sign * amount} where id = {account}",
                f"insert into {self.name}.ledger "
                f"values ({self.transfers}, {side}, {account}, {sign * amount})",
            ]
        return steps

    def arrive(self) -> None:
        """Wait until the end of all transactions so far is on the broker."""
        with self.connection() as connection:
            number = str(connection.execute("select pg_current_xact_id()").fetchone()[0])  # type: ignore[index]
            connection.execute(f"update {self.name}.accounts set balance = balance where id = 1")
        deadline = time.monotonic() + _WAIT_S
        while not any(
            self._ends(record.value, number) for record in self.kafka.records(f"{self.name}.transaction")
        ):
            assert time.monotonic() < deadline, self.debezium.last_words()
            time.sleep(0.1)

    @staticmethod
    def _ends(value: bytes | None, number: str) -> bool:
        said = json.loads(value or b"{}")
        said = said.get("payload", said)
        return said.get("status") == "END" and said["id"].startswith(f"{number}:")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return sorted(connection.execute(f"select * from {self.name}.{table}").fetchall())


def _run(spark: Any, lake: Lake, bank: Bank, folder: Path, prefix: str, **settings: Any) -> None:
    """calve, until all that is on the broker is read, a few records a micro-batch."""
    feed = calve.read_stream(spark).kafka(
        bank.kafka.bootstrap,
        bank.topics,
        options={"maxOffsetsPerTrigger": str(settings.pop("records", 40))},
        **settings,
    )
    query = (
        calve.write_stream(feed)
        .catalog(lake.name, type="sql", uri=f"sqlite:///{lake.catalog_file}", warehouse=lake.warehouse)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .to_tables(f"{lake.name}.{NAMESPACE}.{prefix}_{{table}}")
    )
    query.awaitTermination()


def _snapshots(lake: Lake, reader: Any, name: str, like: pa.Schema) -> dict[int, list[dict[str, Any]]]:
    """The rows of every snapshot, by its frontier."""
    table = lake.load(name)
    found = {}
    for snapshot in snapshots_of_main(table):
        rows = read_snapshot(reader, lake.at(name), snapshot.snapshot_id, like=like)
        found[int(summary_of(snapshot)["calve.frontier"])] = [
            dict(zip(like.names, row, strict=True)) for row in rows
        ]
    return found


_ACCOUNTS = pa.schema([("id", pa.int32()), ("balance", pa.decimal128(12, 2))])
_LEDGER = pa.schema(
    [
        ("transfer", pa.int32()),
        ("side", pa.int32()),
        ("account", pa.int32()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def _check_snapshots(lake: Lake, reader: Any, prefix: str) -> int:
    accounts = _snapshots(lake, reader, f"{prefix}_accounts", _ACCOUNTS)
    ledger = _snapshots(lake, reader, f"{prefix}_ledger", _LEDGER)
    for frontier, rows in accounts.items():
        assert len(rows) == ACCOUNTS, frontier
        assert sum(row["balance"] for row in rows) == 0, f"half a transfer at {frontier}"
        if frontier in ledger:
            said = {row["id"]: row["balance"] for row in rows}
            for number in said:
                written = sum(row["amount"] for row in ledger[frontier] if row["account"] == number)
                assert said[number] == written, f"account {number} at {frontier}"
    for frontier, rows in ledger.items():
        assert sum(row["amount"] for row in rows) == 0, f"half a transfer at {frontier}"
    return len(accounts)


def _check_end(lake: Lake, reader: Any, prefix: str, bank: Bank) -> None:
    for table, like in (("accounts", _ACCOUNTS), ("ledger", _LEDGER)):
        shown = list(_snapshots(lake, reader, f"{prefix}_{table}", like).values())[-1]
        assert sorted(tuple(row.values()) for row in shown) == bank.rows(table)


def _bank(
    name: str, schemas: str, kafka: Kafka, database: str, debezium: Debezium
) -> tuple[Bank, dict[str, Any]]:
    """A bank, and how calve is told to read it."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    settings = {f"{part}_converter": converter for part in ("key", "value")}
    settings |= {f"{part}_converter_schemas_enable": schemas for part in ("key", "value")}
    bank = Bank(name, database, kafka, debezium, **settings)
    if schemas == "true":
        return bank, {"envelope": "debezium-schemas"}
    tables = {
        bank.topics[0]: "id int primary key, balance decimal(12,2) not null",
        bank.topics[1]: "create table ledger (transfer int, side int, account int, amount numeric(12,2), "
        "at timestamptz default now(), primary key (transfer, side))",
    }
    return bank, {"envelope": "debezium", "tables": tables}


@pytest.mark.parametrize("schemas", ["false", pytest.param("true", marks=pytest.mark.nightly)])
def test_no_snapshot_shows_half_a_transaction_and_the_last_is_the_database(
    schemas, spark, lake: Lake, duckdb, kafka: Kafka, database: str, debezium: Debezium, tmp_path: Path
) -> None:
    name = f"bank_{schemas}"
    bank, said = _bank(name, schemas, kafka, database, debezium)
    said["transaction_topic"] = f"{name}.transaction"
    bank.work(6)
    bank.arrive()
    _run(spark, lake, bank, tmp_path, name, **said)
    first = _check_snapshots(lake, duckdb, name)
    _check_end(lake, duckdb, name, bank)

    bank.work(3)
    debezium.kill()
    bank.work(3)
    debezium.start()
    bank.arrive()
    _run(spark, lake, bank, tmp_path, name, **said)
    assert _check_snapshots(lake, duckdb, name) > first
    _check_end(lake, duckdb, name, bank)
    debezium.disconnect(name)


@pytest.mark.nightly
def test_without_the_transaction_topic_the_last_snapshot_is_the_database(
    spark, lake: Lake, duckdb, kafka: Kafka, database: str, debezium: Debezium, tmp_path: Path
) -> None:
    bank, said = _bank("batches", "true", kafka, database, debezium)
    bank.work(3)
    bank.arrive()
    _run(spark, lake, bank, tmp_path, "batches", **said, records=60)
    debezium.kill()
    bank.work(3)
    debezium.start()
    bank.arrive()
    _run(spark, lake, bank, tmp_path, "batches", **said, records=60)
    _check_end(lake, duckdb, "batches", bank)
    debezium.disconnect("batches")
