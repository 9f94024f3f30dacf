"""Kafka's topics by their ids. One that was deleted and made anew is another topic under the same name.

Spark remembers how far it has read by offsets alone, and in a topic that was made anew they begin again.
Where it has more records by then than the old one had, Spark goes on at the old number: what stands before it
would be passed over in silence. The broker gives every topic an id of its own, which tells the two apart.

It is asked through the client that Spark's Kafka source brings along, with the settings of that source.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from calve.model.errors import BrokerError, ConfigError

_log = logging.getLogger("calve.source")

_OF_KAFKA = "kafka."
_REFUSED = {
    "failondataloss": ("false", "records that are gone would be passed over"),
    "startingoffsets": ("latest", "what the topics hold would be passed over"),
    "kafka.isolation.level": ("read_uncommitted", "records of transactions that were aborted would be read"),
}
_TOPICS = ("subscribe", "subscribepattern", "assign")
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


class TopicIds:
    """The ids of topics, by the options of Spark's Kafka source. They are asked for in every micro-batch, so
    that the client stays open: to open one takes longer than to ask. It is closed when nobody can ask."""

    def __init__(self, spark: Any, options: Mapping[str, str], names: Sequence[str]) -> None:
        self._spark, self._options, self._names = spark, options, tuple(names)
        self._opened: Any = None

    def __call__(self) -> dict[str, str]:
        """The ids, or a `BrokerError` that names a topic which is not there."""
        if self._opened is None:
            self._opened = _opened(self._spark, self._options)
            # Not at the end of the process: the JVM may be gone by then, and takes its clients along.
            weakref.finalize(self, _close, self._opened).atexit = False
        names = self._spark._jvm.java.util.ArrayList(list(self._names))
        futures = self._opened.describeTopics(names).topicNameValues()
        return {name: self._id(name, futures.get(name)) for name in self._names}

    def _id(self, name: str, future: Any) -> str:
        servers = self._options["kafka.bootstrap.servers"]
        try:
            return str(future.get().topicId().toString())
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            if cause.getClass().getName() == _UNKNOWN:
                raise BrokerError(
                    f"the broker at {servers} has no topic {name!r}",
                    hint="Nothing was written. Create it, where it was not there yet. Where it was "
                    "deleted, what had been read of it is in its table: go on with a new checkpoint "
                    "(replaces_checkpoint), without it or when the source sends everything again.",
                ) from error
            raise BrokerError(
                f"the broker at {servers} does not say what it has of topic {name!r}: "
                f"{cause.getClass().getSimpleName()}",
                hint="Nothing was written. Start the query again when the broker is there.",
            ) from error


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options of Spark's Kafka source with which snapshots would not be the source."""
    for name, value in options.items():
        wrong, why = _REFUSED.get(name.lower(), (None, ""))
        if str(value).strip().lower() == wrong:
            raise ConfigError(
                f"with {name}={value} {why}, and snapshots would claim to be the source",
                hint="Leave it out. Where records expired, begin anew from a new snapshot of the source.",
                about=name,
            )
        if name.lower() in _TOPICS:
            raise ConfigError(
                f"topics are named beside the broker, and the option {name} names them again",
                hint="Leave it out: .kafka(servers, ['orders', 'customers'], …).",
                about=name,
            )


def check_kept(spark: Any, options: Mapping[str, str], names: Sequence[str]) -> None:
    """Refuse topics that are compacted. Compaction keeps the last record of a key: of a delete that is the
    tombstone behind it, which does not say where in the order of events it stands."""
    kinds = spark._jvm.org.apache.kafka.common.config
    with _client(spark, options) as client:
        for name in names:
            topic = kinds.ConfigResource(getattr(kinds, "ConfigResource$Type").TOPIC, name)
            asked = spark._jvm.java.util.Collections.singleton(topic)
            try:
                said = client.describeConfigs(asked).values().get(topic).get()
            except Py4JJavaError as error:
                _log.warning("whether topic %s is compacted is not known: %s", name, error.java_exception)
                continue
            if "compact" in said.get("cleanup.policy").value():
                raise ConfigError(
                    f"topic {name!r} is compacted (cleanup.policy): of a delete its tombstone alone may be "
                    "left, and the row would stay",
                    hint="Set cleanup.policy=delete. Or give it a min.compaction.lag.ms that is longer than "
                    "a feed will ever stand still, and say compacted='allow'.",
                    about="topic",
                )


@contextmanager
def _client(spark: Any, options: Mapping[str, str]) -> Iterator[Any]:
    client = _opened(spark, options)
    try:
        yield client
    finally:
        client.close()


def _opened(spark: Any, options: Mapping[str, str]) -> Any:
    admin = spark._jvm.org.apache.kafka.clients.admin
    known = admin.AdminClientConfig.configNames()
    settings = spark._jvm.java.util.Properties()
    for name, value in options.items():
        if known.contains(name.removeprefix(_OF_KAFKA)):
            settings.setProperty(name.removeprefix(_OF_KAFKA), value)
    return admin.AdminClient.create(settings)


def _close(client: Any) -> None:
    with suppress(Py4JError, OSError):  # the session may be gone, and the client with it
        client.close()
