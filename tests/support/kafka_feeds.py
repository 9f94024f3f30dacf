"""A feed whose messages come from a real Kafka broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import calve
from calve.runtime.spark.feed import Feed
from tests.support.feeds import Event, FeedFlow
from tests.support.servers.kafka import Kafka, Record


@dataclass(slots=True)
class KafkaFlow(FeedFlow):
    """The same events, as records of topics."""

    kafka: Any = None
    topics: tuple[str, ...] = ("orders",)

    def put(self, *events: Event) -> None:
        """Records of the topics, in their order."""
        self.sent.append(list(events))
        # A producer a topic: each takes half a second to get to know the broker.
        by_topic: dict[str, list[Record]] = {}
        for event in events:
            by_topic.setdefault(self.topic(event.topic), []).extend(self.records(event))
        for topic, records in by_topic.items():
            self.broker.produce(topic, records)

    def records(self, event: Event) -> list[Record]:
        return [Record(_bytes(key), _bytes(value), event.partition) for key, value in self._messages(event)]

    @property
    def broker(self) -> Kafka:
        assert isinstance(self.kafka, Kafka)
        return self.kafka

    def topic(self, name: str) -> str:
        """Topics of tests keep apart by their prefix; the table is named by the last part."""
        return f"{self.prefix}.{name}"

    def feed(self) -> Feed:
        declared = {self.topic(name): table for name, table in self.tables.items() if table is not None}
        return calve.read_stream(self.spark).kafka(
            self.broker.bootstrap,
            [self.topic(name) for name in self.topics],
            envelope=self.dialect.envelope,
            tables=declared or None,
            **self.read,
        )


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
