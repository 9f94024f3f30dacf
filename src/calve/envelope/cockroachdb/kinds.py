"""The envelopes of a changefeed, by their names."""

from __future__ import annotations

from enum import StrEnum

from calve.model.errors import ConfigError


class Kind(StrEnum):
    """How a changefeed wraps its rows (its option `envelope`)."""

    WRAPPED = "wrapped"
    ENRICHED = "enriched"
    BARE = "bare"

    @classmethod
    def of(cls, word: str) -> Kind:
        """The envelope by its name."""
        if word in ("row", "key_only"):
            raise ConfigError(
                f"the envelope {word!r} does not say enough: it has no time, and "
                + ("a delete is an empty message" if word == "row" else "no row"),
                hint="CREATE CHANGEFEED … WITH envelope = 'wrapped', updated, resolved.",
                about="envelope",
            )
        if word not in set(cls):
            raise ConfigError(
                f"{word!r} is no envelope of a changefeed",
                hint=f"There are: {', '.join(cls)}.",
                about="envelope",
            )
        return cls(word)
