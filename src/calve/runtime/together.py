"""Together: batches of several tables in one commit, where the catalog can; else one after the other.

    coordinators ─▶ begin ─▶ build ─▶ one request ─▶ each looks at its table and settles ─▶ done, or again

Guarantee: where the catalog has the endpoint, readers see the batches of all tables or of none. Where it has
not, tables are committed in their order; a run that ends in between leaves some tables ahead of others, and
the next one commits the rest, because each table remembers its own progress (P3).

After one request the tables do not differ in what landed. They are asked one by one all the same: what the
table shows is the only memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog

from calve.model.errors import PremiseBroken
from calve.runtime.coordinator import Coordinator, Pending
from calve.table.build import Ready
from calve.table.commit import commits_many, send_many

_log = logging.getLogger("calve.commit")


@dataclass(slots=True)
class Joint:
    """What became of a joint commit."""

    landed: list[Coordinator] = field(default_factory=list)
    broken: dict[Coordinator, PremiseBroken] = field(default_factory=dict)
    """Their batches must be written again."""


def commit_together(catalog: Catalog, parts: Sequence[tuple[Coordinator, Sequence[Ready]]]) -> Joint:
    """Publish batches of several tables. Where one of them must be written again, none is sent that could
    have gone with it."""
    joint = Joint()
    if len(parts) < 2 or not commits_many(catalog):
        return _one_by_one(parts, joint)
    pending = {run: begun for run, batches in parts if (begun := _begun(run, batches, joint)) is not None}
    while pending and not joint.broken:
        requests = [(run, run.build(begun)) for run, begun in pending.items()]
        try:
            sent = send_many(catalog, [(run.base, request) for run, request in requests])
        except NotImplementedError:
            _log.warning("the catalog commits to one table at a time: its tables are committed in order")
            return _one_by_one([(run, batches) for run, batches in parts if run in pending], joint)
        for run, request in requests:
            run.note(sent)
            try:
                if run.settle(pending[run], request, sent):
                    del pending[run]
                    joint.landed.append(run)
            except PremiseBroken as broken:
                joint.broken[run] = broken
    return joint


def _begun(run: Coordinator, batches: Sequence[Ready], joint: Joint) -> Pending | None:
    try:
        pending = run.begin_commit(batches)
    except PremiseBroken as broken:
        joint.broken[run] = broken
        return None
    if pending is None:
        joint.landed.append(run)
    return pending


def _one_by_one(parts: Sequence[tuple[Coordinator, Sequence[Ready]]], joint: Joint) -> Joint:
    for run, batches in parts:
        try:
            run.commit(batches)
        except PremiseBroken as broken:
            joint.broken[run] = broken
        else:
            joint.landed.append(run)
    return joint
