"""Materialize's SUBSCRIBE as JSON: diffs, ENVELOPE UPSERT, ENVELOPE DEBEZIUM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from calve.envelope.materialize import Kind, Materialize
from tests.support.feeds import Change


@dataclass(frozen=True)
class Subscribed:
    """One kind of a subscription. Times are Materialize's own."""

    kind: Kind = Kind.DIFF

    timed = True

    @property
    def name(self) -> str:
        return f"materialize-{self.kind}"

    @property
    def envelope(self) -> Materialize:
        return Materialize(self.kind)

    def time(self, change: Change) -> int:
        return change.time

    def change(self, change: Change) -> list[tuple[str | None, str | None]]:
        gone = change.row is None
        values = dict.fromkeys(("name", "amount")) if gone else dict(change.row or {})
        values = {name: str(one) if isinstance(one, Decimal) else one for name, one in values.items()}
        said: dict[str, Any] = {"mz_timestamp": str(change.time), "mz_progressed": False}
        match self.kind:
            case Kind.DIFF:
                body = {**said, "mz_diff": -1 if gone else 1, **values, **change.key}
            case Kind.UPSERT:
                body = {**said, "mz_state": "delete" if gone else "upsert", **values, **change.key}
            case _:
                after = {f"after_{name}": one for name, one in values.items() if name not in change.key}
                before = dict.fromkeys([name.replace("after_", "before_") for name in after])
                body = {**said, "mz_state": "delete" if gone else "upsert", **change.key, **before, **after}
        return [(None, json.dumps(body))]

    def mark(self, time: int) -> list[tuple[str | None, str | None]]:
        # Progress is exclusive, as our marks.
        return [(None, json.dumps({"mz_timestamp": str(time), "mz_progressed": True, "mz_diff": None}))]
