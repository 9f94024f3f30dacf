"""The envelopes by their names, as users say them."""

from __future__ import annotations

from collections.abc import Callable

from calve.config.units import nearest
from calve.envelope import materialize
from calve.envelope.base import Envelope
from calve.envelope.cockroachdb import CockroachDB, Kind
from calve.envelope.debezium import Debezium
from calve.envelope.materialize import Materialize
from calve.model.errors import ConfigError

_ENVELOPES: dict[str, Callable[[], Envelope]] = {
    "cockroachdb": CockroachDB,
    "cockroachdb-wrapped": CockroachDB,
    "cockroachdb-enriched": lambda: CockroachDB(Kind.ENRICHED),
    "cockroachdb-enriched-schema": lambda: CockroachDB(Kind.ENRICHED, payload=True),
    "cockroachdb-bare": lambda: CockroachDB(Kind.BARE),
    "debezium": Debezium,
    "debezium-schemas": lambda: Debezium(schemas=True),
    "debezium-avro": lambda: _registered(),
    "materialize": Materialize,
    "materialize-upsert": lambda: Materialize(materialize.Kind.UPSERT),
    "materialize-debezium": lambda: Materialize(materialize.Kind.DEBEZIUM),
}


def envelope_of(name: str) -> Envelope:
    """An envelope by its name."""
    word = name.strip().lower().replace("_", "-")
    if word.startswith("cockroachdb-") and word not in _ENVELOPES:
        Kind.of(word.removeprefix("cockroachdb-").replace("-", "_"))
    if word not in _ENVELOPES:
        near = nearest(word, list(_ENVELOPES))
        raise ConfigError(
            f"there is no envelope {name!r}",
            hint=(f"Did you mean {near!r}? " if near else "") + f"There are: {', '.join(_ENVELOPES)}.",
        )
    return _ENVELOPES[word]()


def _registered() -> Envelope:
    raise ConfigError(
        "messages in Avro name their schema by an id, and nothing says where its registry is",
        hint='Give the envelope itself: RegisteredDebezium(registry=Registry("http://host:8081")).',
    )
