"""A Kafka broker 4.3 of one node: broker and controller in one process, topics of one replica.

    with Kafka() as kafka:
        kafka.create("orders", partitions=2)
        kafka.produce("orders", [Record(b"1", b"{}"), Record(b"2", b"{}", partition=1)])
        kafka.add_partitions("orders", 3)
        with kafka.transaction() as transaction:    # or transaction(commit=False)
            transaction.send("orders", Record(b"3", b"{}"))
        kafka.restart()                             # or kill() and start(): the same port, the same records

Nothing is created by being written to, and what `produce` returned from is on the broker's disk.
"""

from __future__ import annotations

import functools
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.support.servers.java import jars_of, java
from tests.support.servers.process import Server, free_ports

_ANSWER_S = 20
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


@dataclass(frozen=True)
class Record:
    """What is written; without a partition its key chooses one."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True)
class Stored(Record):
    """What the broker holds."""

    topic: str = ""
    offset: int = -1


@dataclass(frozen=True)
class Transaction:
    """Records that are committed together, or aborted."""

    producer: Any

    def send(self, topic: str, record: Record) -> None:
        _send(self.producer, topic, record)


class Kafka(Server):
    name: ClassVar[str] = "kafka"

    def __init__(self) -> None:
        super().__init__()
        self._port, self._controller = free_ports(2)
        self._settings = self.folder / "server.properties"
        self._settings.write_text(
            _SETTINGS.format(
                host=self.host, port=self._port, controller=self._controller, folder=self.folder
            ),
            encoding="utf-8",
        )
        format_it = java(
            *("kafka.tools.StorageTool", "format", "-t", "calve-tests-cluster-id", "-c", self._settings),
            path=jars_of("kafka"),
        )
        subprocess.run(format_it, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self._port}"

    def command(self) -> list[str]:
        return java("kafka.Kafka", self._settings, path=jars_of("kafka"))

    def answers(self) -> bool:
        import confluent_kafka

        try:
            brokers = self._admin.list_topics(timeout=0.5).brokers
        except confluent_kafka.KafkaException:
            return False
        return bool(brokers)

    def restart(self) -> None:
        """An orderly stop, and a start on the same port and records."""
        self.stop()
        self.start()

    # -- topics

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """A topic; `_` stands for `.` in the names of its settings: `cleanup_policy="compact"`."""
        from confluent_kafka.admin import NewTopic

        config = {name.replace("_", "."): value for name, value in settings.items()}
        _done(self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))

    def add_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        _done(self._admin.create_partitions([NewPartitions(topic, total)]))

    def delete(self, topic: str) -> None:
        _done(self._admin.delete_topics([topic]))

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has, without the broker's own."""
        listed = self._admin.list_topics(timeout=_ANSWER_S).topics
        return {name: len(topic.partitions) for name, topic in listed.items() if not name.startswith("__")}

    # -- records

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        """Write records, each to its partition in the order they come in, and wait for the broker."""
        producer = self._producer()
        for record in records:
            _send(producer, topic, record)
        _flushed(producer)

    @contextmanager
    def transaction(self, *, commit: bool = True) -> Iterator[Transaction]:
        """A transaction: committed when the block ends; aborted when it raises, or on demand."""
        producer = self._producer(**{"transactional.id": f"calve-{uuid.uuid4()}"})
        producer.init_transactions(_ANSWER_S)
        producer.begin_transaction()
        try:
            yield Transaction(producer)
        except BaseException:
            producer.abort_transaction(_ANSWER_S)
            raise
        if commit:
            producer.commit_transaction(_ANSWER_S)
        else:
            _flushed(producer)  # what never left the producer would be aborted by nobody's eyes
            producer.abort_transaction(_ANSWER_S)

    def records(self, topic: str, *, committed: bool = True) -> list[Stored]:
        """All records that a topic has now, partition by partition."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **self._client,
                "group.id": f"calve-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        try:
            return list(_read(consumer, topic, self.topics()[topic]))
        finally:
            consumer.close()

    # -- clients

    @property
    def _client(self) -> dict[str, Any]:
        # Complaints about a broker that is down belong to no test's output.
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    @functools.cached_property
    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client)

    def _producer(self, **settings: str) -> Any:
        from confluent_kafka import Producer

        return Producer({**self._client, "enable.idempotence": True, **settings})


def _send(producer: Any, topic: str, record: Record) -> None:
    where = {} if record.partition is None else {"partition": record.partition}
    producer.produce(
        topic, key=record.key, value=record.value, headers=list(record.headers), on_delivery=_refuse, **where
    )
    producer.poll(0)


def _refuse(error: Any, _message: Any) -> None:
    from confluent_kafka import KafkaException

    if error is not None:
        raise KafkaException(error)


def _flushed(producer: Any) -> None:
    left = producer.flush(_ANSWER_S)
    assert not left, f"{left} records did not reach the broker"


def _done(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(_ANSWER_S)


def _read(consumer: Any, topic: str, partitions: int) -> Iterator[Stored]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: list[Stored] = []
    open_ones = set(range(partitions))
    while open_ones:
        message = consumer.poll(_ANSWER_S)
        assert message is not None, f"{topic}: the broker says nothing"
        if message.error() is None:
            found.append(
                Stored(
                    *(message.key(), message.value(), message.partition(), message.headers() or ()),
                    topic=topic,
                    offset=message.offset(),
                )
            )
        elif message.error().code() == KafkaError._PARTITION_EOF:
            open_ones.discard(message.partition())
        else:
            raise KafkaException(message.error())
    yield from sorted(found, key=lambda record: (record.partition or 0, record.offset))
