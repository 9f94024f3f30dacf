"""The envelopes by their names, as users say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from calve.config.units import nearest
from calve.envelope import materialize
from calve.envelope.base import Envelope
from calve.envelope.cockroachdb import CockroachDB, Kind
from calve.envelope.debezium import Debezium, RegisteredDebezium, Registry
from calve.envelope.debezium.declared import Declared
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
    "debezium-avro": lambda: RegisteredDebezium(),
    "materialize": Materialize,
    "materialize-upsert": lambda: Materialize(materialize.Kind.UPSERT),
    "materialize-debezium": lambda: Materialize(materialize.Kind.DEBEZIUM),
}


_VALUES = ("decimals", "times", "meanings")
SETTINGS = ("toast", "truncates", "infinity", "placeholder", *_VALUES, "registry")
"""What may be said of Debezium's messages beside the envelope's name."""


def envelope_of(name: str, said: Mapping[str, Any] = MappingProxyType({})) -> Envelope:
    """An envelope by its name, with settings of Debezium's messages."""
    envelope = _named(name)
    if not isinstance(envelope, Debezium):
        if said:
            raise ConfigError(
                f"{next(iter(said))} is a setting of Debezium's messages, and the envelope is {name!r}",
                hint="Leave it out.",
                about=next(iter(said)),
            )
        return envelope
    given = {key: value for key, value in said.items() if key not in (*_VALUES, "registry")}
    if values := {key: said[key] for key in _VALUES if key in said}:
        given["declared"] = Declared(**values)
    if isinstance(envelope, RegisteredDebezium) != ("registry" in said):
        raise ConfigError(
            "messages in Avro name their schema by an id, and nothing says where its registry is"
            if "registry" not in said
            else f"a registry is for messages in Avro, and the envelope is {name!r}",
            hint="Say both, envelope='debezium-avro' and registry='http://host:8081', or neither.",
            about="registry" if "registry" in said else "envelope",
        )
    if "registry" in said:
        where = said["registry"]
        given["registry"] = where if isinstance(where, Registry) else Registry(str(where))
    return replace(envelope, **given)


def _named(name: str) -> Envelope:
    word = name.strip().lower().replace("_", "-")
    if word.startswith("cockroachdb-") and word not in _ENVELOPES:
        Kind.of(word.removeprefix("cockroachdb-").replace("-", "_"))
    if word not in _ENVELOPES:
        near = nearest(word, list(_ENVELOPES))
        raise ConfigError(
            f"there is no envelope {name!r}",
            hint=(f"Did you mean {near!r}? " if near else "") + f"There are: {', '.join(_ENVELOPES)}.",
            about="envelope",
        )
    return _ENVELOPES[word]()
