"""The clock, at the edge: everything below is told what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time that can be told and waited for; tests bring one that they move."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def ticks_ms(self) -> float:
        """Milliseconds that never go back, for durations."""
        ...

    def wait_ms(self, duration_ms: int) -> None: ...


class SystemClock:
    """The machine's own."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def ticks_ms(self) -> float:
        return time.perf_counter() * 1000

    def wait_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)
