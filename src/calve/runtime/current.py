"""The current epoch: the one that is open, or the one that is being skipped; never both, never two."""

from __future__ import annotations

import logging

from calve.model.errors import SinkState, StoreError
from calve.model.time import check_time
from calve.runtime.epoch import Epoch

_log = logging.getLogger("calve.sink")


class Current:
    """What a sink is at work on."""

    def __init__(self) -> None:
        self.epoch: Epoch | None = None
        self.skipping: int | None = None
        """An epoch that is in the table: what is written to it is dropped."""
        self.last_seen = -1
        """The last epoch that this run finished, also without a snapshot."""

    @property
    def number(self) -> int | None:
        return self.skipping if self.epoch is None else self.epoch.number

    def check_none(self, epoch: int) -> None:
        """Refuse to begin an epoch while another one is open."""
        if self.number is not None:
            raise SinkState(
                f"epoch {self.number} is still open, so {epoch} cannot begin",
                hint="Commit it or roll it back first.",
            )

    def check(self, epoch: int) -> None:
        """Refuse what is asked of another epoch than the current one."""
        check_time(epoch, "epoch")
        if self.number is None:
            raise SinkState(f"epoch {epoch} was not begun", hint=f"Call begin_epoch({epoch}) first.")
        if self.number != epoch:
            raise SinkState(
                f"epoch {self.number} is open, not {epoch}", hint=f"Finish epoch {self.number} first."
            )

    def opened(self) -> Epoch:
        """The open epoch."""
        if self.epoch is None:
            raise SinkState("no epoch is open", hint="Call begin_epoch first.")
        return self.epoch

    def finish(self, epoch: Epoch) -> None:
        """The epoch is in the table, or had nothing to say."""
        self.last_seen = max(self.last_seen, epoch.number)
        self.discard()

    def discard(self) -> None:
        """Let go of the epoch, and of what it spilled."""
        # First let go: whatever happens while it is cleaned up, a landed epoch is not committed again.
        epoch, self.epoch, self.skipping = self.epoch, None, None
        if epoch is not None:
            try:
                epoch.discard()
            except StoreError as error:
                _log.warning("spilled rows of epoch %s stay behind: %s", epoch.number, error.message)
