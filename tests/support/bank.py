"""A bank in PostgreSQL whose connector is Debezium: transfers on two connections that interleave.

    accounts (id, balance), ledger (transfer, side, account, amount, at) ──Debezium──▶ topics

A transfer takes from one account, gives to another and writes both down: the sum of all accounts is 0 at any
time, and an account is what the ledger says of it. So half a transaction can be seen in a snapshot.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

import calve
from tests.support.lake import NAMESPACE, Lake
from tests.support.readers import read_snapshot
from tests.support.servers.debezium import Debezium
from tests.support.servers.kafka import Kafka
from tests.support.truth import snapshots_of_main, summary_of

ACCOUNTS = 6
_WAIT_S = 60


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
        value = value or b"{}"
        if value.startswith(b"\0"):  # Avro: texts stand in it as they are
            return b"END" in value and f"{number}:".encode() in value
        said = json.loads(value)
        said = said.get("payload", said)
        return said.get("status") == "END" and said["id"].startswith(f"{number}:")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return sorted(connection.execute(f"select * from {self.name}.{table}").fetchall())


def run(
    spark: Any, lake: Lake, bank: Bank, folder: Path, prefix: str, *, records: int = 40, **settings: Any
) -> None:
    """calve, until all that is on the broker is read, a few records a micro-batch."""
    feed = calve.read_stream(spark).kafka(
        bank.kafka.bootstrap,
        bank.topics,
        options={"maxOffsetsPerTrigger": str(records)},
        **settings,
    )
    query = (
        calve.write_stream(feed)
        .schema_evolution()
        .catalog(lake.name, type="sql", uri=f"sqlite:///{lake.catalog_file}", warehouse=lake.warehouse)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .to_tables(f"{lake.name}.{NAMESPACE}.{prefix}_{{table}}")
    )
    query.awaitTermination()


def _snapshots(
    lake: Lake, reader: Any, name: str, like: pa.Schema, last: int = 0
) -> dict[int, list[dict[str, Any]]]:
    """The rows of every snapshot, or of the last ones, by its frontier."""
    table = lake.load(name)
    found = {}
    for snapshot in snapshots_of_main(table)[-last:]:
        (schema,) = (one for one in table.metadata.schemas if one.schema_id == snapshot.schema_id)
        then = like.append(_MEMO) if _MEMO.name in schema.column_names else like
        rows = read_snapshot(reader, lake.at(name), snapshot.snapshot_id, like=then)
        found[int(summary_of(snapshot)["calve.frontier"])] = [
            dict(zip(then.names, row, strict=True)) for row in rows
        ]
    return found


_MEMO = pa.field("memo", pa.string())
"""A column that a table may get."""
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


def check_snapshots(lake: Lake, reader: Any, prefix: str) -> int:
    """No snapshot shows half a transfer; how many there are of accounts."""
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


def check_end(lake: Lake, reader: Any, prefix: str, bank: Bank) -> None:
    """The last snapshots are the database."""
    for table, like in (("accounts", _ACCOUNTS), ("ledger", _LEDGER)):
        (shown,) = _snapshots(lake, reader, f"{prefix}_{table}", like, last=1).values()
        assert sorted(tuple(row.values()) for row in shown) == bank.rows(table)
