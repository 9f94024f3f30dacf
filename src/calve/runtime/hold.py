"""The hold that one run has on a table: what it last saw of it, and its one way to the catalog.

Here are the clock, the randomness and the requests. What a request means is decided elsewhere; what this
module guards is that an answer older than what was seen already is never believed (case 25).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import Table

from calve.model.errors import AccessDenied, CatalogError, StoreError
from calve.protocol.retry import Answer, RetryPolicy
from calve.runtime.clock import Clock, SystemClock
from calve.runtime.foreign import Foreign
from calve.table.base import Base, last_sequence, read_base
from calve.table.build import Attempt, Builder
from calve.table.commit import Sent, may_pass
from calve.table.commit import load as load_table
from calve.table.commit import send as send_attempt
from calve.table.fence import Fence, Held, TagFence

_SNAPSHOT_ID_BITS = 62


@dataclass(frozen=True, slots=True)
class Identity:
    """Which sink this is, and what its times mean."""

    table: tuple[str, ...]
    sink_id: str
    source: str
    kind: str | None = None
    """What the sink makes of changes, such as `upsert (id)`: the table remembers it from its first claim."""

    @property
    def table_name(self) -> str:
        return ".".join(self.table)


@dataclass(slots=True)
class CommitStats:
    """What commits cost, for metrics and benchmarks."""

    commits: int = 0
    conflicts: int = 0
    unknowns: int = 0
    last_ms: float = 0.0
    last_catalog_ms: float = 0.0


class Hold:
    """One run's hold on a table."""

    def __init__(
        self,
        catalog: Catalog,
        identity: Identity,
        *,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        halt_on_foreign_rows: bool = False,
        fence: Fence | None = None,
    ) -> None:
        self._catalog = catalog
        self.identity = identity
        self.policy = policy or RetryPolicy()
        self.clock = clock or SystemClock()
        self._random = random or Random()
        self.fence = fence or TagFence(identity.sink_id)
        self.builder = Builder(self.fence)
        self.writer = UUID(int=self._random.getrandbits(128), version=4)
        self._base: Base | None = None
        self._sequence_seen = 0
        self._clock_is_doubted = False
        self.answer_open = False
        """A commit whose answer was lost may still be under way, and land later."""
        self.foreign = Foreign(identity.table_name, identity.sink_id, halt_on_foreign_rows)
        self.stats = CommitStats()

    @property
    def base(self) -> Base:
        """The table as this run last saw it."""
        assert self._base is not None, "claim first"
        return self._base

    def refresh(self) -> Base:
        """Read the table again: the next batch is planned on what is there now. An answer that is older than
        what was seen already, or shows another table, changes nothing: what it means is judged when the
        batch is committed."""
        table = self.load()
        if table.metadata.table_uuid == self.base.metadata.table_uuid:
            self.see_newer(table)
        return self.base

    def send(self, request: Attempt) -> Sent:
        """Send an attempt once; what landed is the base from then on."""
        before = self.clock.ticks_ms()
        sent = send_attempt(self._catalog, self.base, request)
        if sent.base is not None:
            # Still the catalog's time: letting its old metadata go takes milliseconds a thousand snapshots.
            self._base = sent.base
            self._sequence_seen = max(self._sequence_seen, last_sequence(sent.base.metadata))
        self.stats.last_catalog_ms += self.clock.ticks_ms() - before
        self.note(sent)
        return sent

    def note(self, sent: Sent) -> None:
        """Remember what an answer means for what is sent next."""
        match sent.answer:
            case Answer.LANDED:
                self._clock_is_doubted = False
            case Answer.CONFLICT:
                self._clock_is_doubted = isinstance(sent.cause, BadRequestError)
                self.stats.conflicts += 1
            case Answer.UNKNOWN:
                self.stats.unknowns += 1
                self.answer_open = True

    def now_ms(self) -> int:
        """The time of a snapshot that is built now; 0 lets it follow the table's own. Servers refuse (400)
        one that is more than a minute ahead of their clock: where that may have been the reason, ours
        is not asked for the next attempt."""
        return 0 if self._clock_is_doubted else self.clock.now_ms()

    def load(self) -> Table:
        """The table as the catalog shows it now. Nothing is believed of it yet."""
        return load_table(self._catalog, self.identity.table)

    def try_load(self, attempt: int) -> Table | None:
        """The same; `None` where the catalog cannot be reached and attempts are left."""
        try:
            return self.load()
        except (CatalogError, StoreError) as error:
            if isinstance(error, AccessDenied) and not may_pass(error):
                raise
            if attempt >= self.policy.attempts_max:
                raise
            return None

    def see(self, table: Table) -> None:
        """Build on this table from now on."""
        self._base = read_base(table)
        self._sequence_seen = max(self._sequence_seen, last_sequence(table.metadata))

    def see_newer(self, table: Table) -> bool:
        """See a table, unless a replica that lags showed it."""
        if self._base is None or table.metadata.table_uuid != self._base.metadata.table_uuid:
            self._sequence_seen = 0
        newer = last_sequence(table.metadata) >= self._sequence_seen
        if newer:
            self.see(table)
        return newer

    def found(self) -> Held | None:
        """The sink's last claim or commit in the base."""
        return self.fence.find(self.base.table)

    def pause(self, attempt: int) -> None:
        """Wait before the attempt after this one."""
        self.clock.wait_ms(self.policy.backoff_ms(attempt, self._random.random()))

    def draw_snapshot_id(self) -> int:
        """An id that no snapshot has: one in 2^62."""
        return self._random.getrandbits(_SNAPSHOT_ID_BITS) + 1
