"""Mutations: guards against a network that lies, taken out of the real sink, one each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyiceberg.exceptions import ServiceUnavailableError

from calve.protocol.judge import Intent, Look, Verdict, judge
from calve.protocol.retry import Answer
from calve.runtime import coordinator, hold
from calve.runtime.coordinator import Coordinator
from calve.table.commit import Sent
from calve.table.fence import TagFence

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A guard taken out."""

    break_it: Patch
    daily: bool = False
    """Also a part of `make test`, not of the nightly tests alone."""

    @property
    def name(self) -> str:
        return self.break_it.__name__


def a_503_is_taken_for_a_commit(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether it landed (case 19)."""
    real: Any = getattr(hold, "send_attempt")  # noqa: B009 (the module's own name for it)

    def believing(catalog: Any, base: Any, attempt: Any) -> Sent:
        sent = real(catalog, base, attempt)
        if isinstance(sent.cause, ServiceUnavailableError):
            return Sent(Answer.LANDED, base)
        return sent

    patch.setattr(hold, "send_attempt", believing)


def a_new_snapshot_id_for_every_attempt(patch: pytest.MonkeyPatch) -> None:
    """What an earlier attempt sent is not recognised when it is found in the table (case 16)."""
    build_, intent = Coordinator._group_commit, Coordinator._intent

    def anew(self: Coordinator, prepared: Any) -> Any:
        for item in prepared:
            object.__setattr__(item, "snapshot_id", self.draw_snapshot_id())
        return build_(self, prepared)

    def of_the_next(self: Coordinator, prepared: Any) -> Intent:
        return replace(intent(self, prepared), snapshot_ids=(self.draw_snapshot_id(),))

    patch.setattr(Coordinator, "_group_commit", anew)
    patch.setattr(Coordinator, "_intent", of_the_next)


def no_tag_requirement(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether the sink was claimed since: neither the commit, nor the look after a conflict."""
    required = TagFence._required
    patch.setattr(TagFence, "_required", lambda self, metadata, held: required(self, metadata, held)[:1])
    patch.setattr(coordinator, "judge", lambda intent, look: judge(intent, replace(look, held=intent.held)))
    patch.setattr(Coordinator, "_check_lineage", lambda _: None)


def an_older_table_is_believed(patch: pytest.MonkeyPatch) -> None:
    """An answer that is older than what was seen is judged like any other (case 25)."""

    def trusting(intent: Intent, look: Look) -> Verdict:
        return judge(replace(intent, sequence_seen=0), look)

    def see(self: Any, table: Any) -> bool:
        self.see(table)
        return True

    patch.setattr(coordinator, "judge", trusting)
    patch.setattr(hold.Hold, "see_newer", see)


def landed_is_not_recognised(patch: pytest.MonkeyPatch) -> None:
    def blind(intent: Intent, look: Look) -> Verdict:
        return judge(replace(intent, snapshot_ids=()), replace(look, ours=frozenset()))

    patch.setattr(coordinator, "judge", blind)


def files_of_a_failed_attempt_are_deleted(patch: pytest.MonkeyPatch) -> None:
    """What PyIceberg's own commit does: the attempt seems lost, and its list goes (P5)."""
    real: Any = getattr(hold, "send_attempt")  # noqa: B009

    def tidy(catalog: Any, base: Any, attempt: Any) -> Sent:
        sent = real(catalog, base, attempt)
        if sent.answer is Answer.CONFLICT:
            for update in attempt.updates:
                if update.action == "add-snapshot":
                    base.io.delete(update.snapshot.manifest_list)
        return sent

    patch.setattr(hold, "send_attempt", tidy)


MUTATIONS = (
    Mutation(a_503_is_taken_for_a_commit, daily=True),
    Mutation(a_new_snapshot_id_for_every_attempt, daily=True),
    Mutation(no_tag_requirement, daily=True),
    Mutation(an_older_table_is_believed),
    Mutation(landed_is_not_recognised),
    Mutation(files_of_a_failed_attempt_are_deleted),
)
