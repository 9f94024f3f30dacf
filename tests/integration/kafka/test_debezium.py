"""PostgreSQL, Debezium, Kafka, calve: the tables are PostgreSQL's, and no snapshot shows half a transaction.

    two connections, transfers that interleave ──▶ accounts, ledger ──Debezium──▶ topics ──calve──▶ tables

A transfer takes from one account, gives to another and writes both down: the sum of all accounts is 0 in
every snapshot, and an account is what the ledger says of it (bank.py). Debezium is killed and sends events
again; calve is stopped between its micro-batches, which are cut anywhere, and killed within them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.driver import KAFKA, Job
from tests.nemesis.processes import Driver, Pool, session_of
from tests.nemesis.steps import KILL, Trap
from tests.support.bank import Bank, check_end, check_snapshots, run
from tests.support.lake import NAMESPACE, Lake
from tests.support.postgres import postgres
from tests.support.servers.debezium import Debezium
from tests.support.servers.kafka import Kafka
from tests.support.spark import jar_settings

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres(wal_level="logical") as uri:
        yield uri


@pytest.fixture(scope="module")
def debezium(kafka: Kafka) -> Iterator[Debezium]:
    with Debezium(kafka.bootstrap) as server:
        yield server


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


@pytest.mark.nightly
@pytest.mark.parametrize("schemas", ["false", "true"])
def test_no_snapshot_shows_half_a_transaction_and_the_last_is_the_database(
    schemas, spark, lake: Lake, duckdb, kafka: Kafka, database: str, debezium: Debezium, tmp_path: Path
) -> None:
    name = f"bank_{schemas}"
    bank, said = _bank(name, schemas, kafka, database, debezium)
    said["transaction_topic"] = f"{name}.transaction"
    bank.work(6)
    bank.arrive()
    run(spark, lake, bank, tmp_path, name, **said)
    first = check_snapshots(lake, duckdb, name)
    check_end(lake, duckdb, name, bank)

    bank.work(3)
    debezium.kill()
    bank.work(3)
    debezium.start()
    bank.arrive()
    run(spark, lake, bank, tmp_path, name, **said)
    assert check_snapshots(lake, duckdb, name) > first
    check_end(lake, duckdb, name, bank)
    debezium.disconnect(name)


_DAILY = {
    # The first of the two tables has the micro-batch, and the second has not.
    "commit: done": 1,
}
_NIGHTLY = {
    "Spark's offsets: written": 2,
    "segment: done": 1,
    "files: done": 2,
    "stash manifest: write: done": 2,
    "publishing: about to": 1,
    "commit: done": 2,
    "SQL: commit: done": 3,
    "micro-batch: done": 1,
    "Spark's commits: written": 1,
}
"""Steps at which drivers are killed, one after the other, and how often each is reached before that."""


def _run_until_killed(driver: Driver, job: Job, trap: Trap, bank: Bank) -> None:
    """A driver in its own process, while the bank goes on with its work."""
    trap.set(driver.folder)
    driver.begin(job)
    worked = 0
    while not driver.wait_until(lambda: not driver.is_alive, 0.3):
        assert driver.micro_batches < 30, f"{trap.step} is never reached"
        if worked < driver.micro_batches + 4:  # what it cannot keep up with is for the last run
            bank.work(1)
            worked += 1
    assert driver.trapped == trap.step, driver.report()
    driver.kill()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "schemas, kills",
    [
        pytest.param("false", _DAILY, id="daily"),
        pytest.param("false", _NIGHTLY, id="nightly", marks=pytest.mark.nightly),
        pytest.param("true", _NIGHTLY, id="nightly with schemas", marks=pytest.mark.nightly),
    ],
)
def test_a_driver_that_is_killed_in_the_middle_of_transactions_shows_no_half_of_any(
    schemas, kills, spark, lake: Lake, duckdb, kafka: Kafka, database: str, debezium: Debezium, tmp_path: Path
) -> None:
    """Cases 3 to 5, in several tables."""
    name = f"killed_{schemas}_{len(kills)}"
    bank, said = _bank(name, schemas, kafka, database, debezium)
    said["transaction_topic"] = f"{name}.transaction"
    bank.work(2)
    bank.arrive()
    job = Job(
        kind=KAFKA,
        source=kafka.bootstrap,
        checkpoint=str(tmp_path / "checkpoint"),
        catalog=lake.name,
        words={"type": "sql", "uri": f"sqlite:///{lake.catalog_file}", "warehouse": lake.warehouse},
        table=f"{NAMESPACE}.{name}_{{table}}",
        kafka={"topics": bank.topics, "options": {"maxOffsetsPerTrigger": "40"}, **said},
    )
    with Pool(tmp_path / "drivers", jar_settings()) as pool:
        pool.prepare()
        for number, (step, nth) in enumerate(kills.items(), start=1):
            if number == len(kills):
                pool.no_more()
            driver = pool.take()
            _run_until_killed(driver, job, Trap(step, nth, KILL), bank)
        assert not [left for pid in pool.pids() for left in session_of(pid)]
    bank.arrive()
    run(spark, lake, bank, tmp_path, name, **said, records=200)
    assert check_snapshots(lake, duckdb, name) > 1
    check_end(lake, duckdb, name, bank)
    debezium.disconnect(name)


@pytest.mark.nightly
def test_without_the_transaction_topic_the_last_snapshot_is_the_database(
    spark, lake: Lake, duckdb, kafka: Kafka, database: str, debezium: Debezium, tmp_path: Path
) -> None:
    bank, said = _bank("batches", "true", kafka, database, debezium)
    bank.work(3)
    bank.arrive()
    run(spark, lake, bank, tmp_path, "batches", **said, records=60)
    debezium.kill()
    bank.work(3)
    debezium.start()
    bank.arrive()
    run(spark, lake, bank, tmp_path, "batches", **said, records=60)
    check_end(lake, duckdb, "batches", bank)
    debezium.disconnect("batches")
