"""Fit: how rows can be written to a table as it is, and what its schema must become for them.

    Arrival, Base ──▶ Incoming ──▶ Evolution ──▶ Fit: the plan under which rows of the epoch are written

Guarantee: finding a fit changes nothing. What refused rows would have made of the schema is forgotten with
them; only `take` goes on under a new fit, once its rows are accepted.

An epoch may change its schema several times before it is committed once. What asked for a change is kept,
so that all of it can be thought of again on a table that somebody else changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from calve.config.sink import SinkConfig
from calve.runtime.plan import EpochPlan, epoch_plan
from calve.runtime.rows import reading_of
from calve.table.base import Base
from calve.table.evolve import Evolution, check_partition_names, evolve, plan_evolution
from calve.table.schema import to_arrow
from calve.writer.changes import Arrival, changes

_KNOWN_MAX = 64


@dataclass(frozen=True, slots=True)
class Incoming:
    """What rows ask of the schema: their own, and the fields that are required and have nulls in them."""

    schema: pa.Schema
    nulls_in: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows can be written."""

    base: Base
    plan: EpochPlan
    arrivals: tuple[Incoming, ...]
    """Those that changed the schema."""

    @property
    def schema(self) -> pa.Schema:
        return self.plan.write.schema


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows in the shape of a fit, which is not taken yet."""

    fit: Fit
    incoming: Incoming
    rows: pa.Table


class Fitting:
    """The fit of one epoch, as it grows."""

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._reading = reading_of(config)
        self.current: Fit | None = None
        self._known: dict[Incoming, None] = {}

    def try_on(self, arrival: Arrival, base: Base) -> Fitted:
        """How rows can be written on a base, and the rows in that shape. Changes nothing."""
        fit = self.current if self.current is not None and self.current.base is base else None
        arrivals = () if self.current is None else self.current.arrivals
        incoming = self._incoming(arrival, base, fit)
        if fit is None or incoming not in self._known:
            before = self._evolved(base, arrivals)
            evolution = self._evolved(base, (incoming,), before)
            if evolution is not before:
                arrivals = (*arrivals, incoming)  # only these need be thought of again
            fit = Fit(base, epoch_plan(self._config, base, evolution), arrivals)
        return Fitted(fit, incoming, changes(self._reading, arrival, fit.schema))

    def take(self, fitted: Fitted) -> None:
        """Go on under a fit whose rows were accepted."""
        if self.current is not fitted.fit:
            self.current, self._known = fitted.fit, {}
        if len(self._known) < _KNOWN_MAX:
            self._known[fitted.incoming] = None

    def renew(self, base: Base) -> Fit:
        """The fit of all that was taken, on the table as it is now."""
        assert self.current is not None, "no row was taken in"
        arrivals = self.current.arrivals
        plan = epoch_plan(self._config, base, self._evolved(base, arrivals))
        self.current = Fit(base, plan, arrivals)
        return self.current

    def _incoming(self, arrival: Arrival, base: Base, fit: Fit | None) -> Incoming:
        table = to_arrow(base.metadata.schema()) if fit is None else fit.schema
        if arrival.deletes_only:
            # A delete shows its key and its place in the sequence; what else it shows is not looked at.
            shown = {*self._config.key, *self._config.sequence_by}
            names = arrival.rows.schema.names
            fields = [
                arrival.rows.schema.field(field.name)
                if field.name in shown and field.name in names
                else field
                for field in table
            ]
            return Incoming(pa.schema(fields), frozenset())
        # Without evolution a null where none may be is a row that does not fit, and is shown as one.
        nulls_in = arrival.nulls_in(table) if self._config.schema_evolution else frozenset()
        return Incoming(arrival.rows.schema, nulls_in)

    def _evolved(
        self, base: Base, arrivals: Iterable[Incoming], known: Evolution | None = None
    ) -> Evolution | None:
        """What the table's schema must become for these arrivals, after what is known already."""
        allowed = self._config.schema_evolution
        next_id = max(schema.schema_id for schema in base.metadata.schemas) + 1
        for incoming in arrivals:
            if known is None:
                known = evolve(base.metadata, incoming.schema, allowed=allowed, nulls_in=incoming.nulls_in)
                continue
            further = plan_evolution(
                known.schema,
                incoming.schema,
                known.last_column_id,
                allowed,
                nulls_in=incoming.nulls_in,
                next_schema_id=next_id,
            )
            if further is not None:
                check_partition_names(base.metadata, further)
                known = further
        return known
