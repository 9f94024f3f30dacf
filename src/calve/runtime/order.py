"""The order of epochs: which one may begin, and whether it is written or skipped. Pure.

    epoch, after, frontier, last seen ──admit──▶ write it · skip it · Gap · SinkState · BadTime

Epochs grow and may leave numbers out. An epoch before the frontier is in the table: exactly once skips it. At
least once never skips, so an epoch may come again, and only there.
"""

from __future__ import annotations

from calve.config.sink import Delivery, Mode, SinkConfig
from calve.model.errors import BadTime, Gap, SinkState
from calve.model.progress import Progress
from calve.model.time import TIME_MAX, check_time

EPOCH = "epoch"
"""The position of an at-least-once sink: the first epoch after all that came."""

_LONG_MAX = 2**63 - 1


def check_epoch(config: SinkConfig, epoch: int, after: int | None) -> None:
    """Refuse what is no number of an epoch."""
    check_time(epoch, "epoch")
    if after is not None:
        check_time(after, "after")
    if epoch >= TIME_MAX:
        raise SinkState(f"epoch {epoch} is the last number there is", hint="Begin with small numbers.")
    if config.mode is Mode.CHANGELOG and epoch > _LONG_MAX:
        raise BadTime(
            f"epoch {epoch} does not fit the long column {config.changelog_time_column!r}",
            hint=f"A changelog's epochs go up to {_LONG_MAX}.",
        )


def admit(config: SinkConfig, epoch: int, after: int | None, *, frontier: int, last_seen: int) -> bool:
    """True: write the epoch. False: it is in the table, and is skipped. `last_seen` is the last epoch of this
    run, also an empty one, which moves no frontier."""
    if after is not None and after >= max(frontier, last_seen + 1):
        raise Gap(
            f"{config.table_name} ends before epoch {frontier}, but epoch {epoch} follows {after}",
            hint=f"Send the epochs from {frontier} on again.",
        )
    if config.delivery is Delivery.AT_LEAST_ONCE:
        return True
    if epoch < frontier:
        return False
    if epoch <= last_seen:
        raise SinkState(
            f"epoch {epoch} comes after epoch {last_seen}",
            hint="Epochs grow: send them in their order.",
        )
    return True


def frontier_of(config: SinkConfig, progress: Progress) -> int:
    """The first epoch that is not in the table.

    Each commit moves the frontier of progress on, also that of an epoch which is sent again. So with at least
    once it runs ahead of the epochs that came, and who went on from there would lose those in between: there,
    a position says how far the epochs are.
    """
    if config.delivery is Delivery.EXACTLY_ONCE:
        return progress.frontier
    return check_time(progress.positions.get(EPOCH, 0), "position")


def positions_after(config: SinkConfig, epoch: int, frontier: int) -> dict[str, int]:
    """The positions that progress keeps from the commit of an epoch on."""
    return {} if config.delivery is Delivery.EXACTLY_ONCE else {EPOCH: max(frontier, epoch + 1)}
