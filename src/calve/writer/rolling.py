"""Rolling: how much goes into the next row group, and when a file is full. Pure: no file, no clock.

    measured row groups ─▶ bytes of file per byte of Arrow ─▶ size of the next row group | full

Guarantee: whatever the rows compress to, a file ends within 10 % of the target, if they compress alike;
and no file passes `FILE_BYTES_MAX`, if they do not. The way there: what Arrow bytes become is learned
from the row groups written so far, for each size of row group, because small ones compress less well.
A size that was never measured is approached in steps, and the last fifth of a small file is measured
before it is filled: an error of the forecast is then an error of a small part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from calve.writer.plan import FILE_BYTES_MAX, FileSettings

_AIM_MAX = FILE_BYTES_MAX * 97 // 100
"""Files may be 10 % over the target, never over the limit: the greatest targets are aimed at from below."""
_FULL = 0.045
"""A file that lacks less of its target is full: a row group for the rest would only be small."""
_PROBE = 0.25
"""The part of the target that the first row group takes in Arrow bytes, before anything is known."""
_STEP = 4
"""A row group is at most so many times larger than the largest that was measured."""
_HELD_BACK = 0.2
"""The part that a file of few row groups leaves for a last one."""
_GROWTH = 1.5
"""Encoding makes rows at most so much larger: a dictionary of values that are all different."""


@dataclass(slots=True)
class Roller:
    """Learns over all files of one writer. `position` is the file's bytes so far, without the footer."""

    settings: FileSettings
    footer_bytes: float
    """What a row group adds to the footer: first an estimate, then as measured."""
    _ratios: dict[int, float] = field(default_factory=dict)
    """Bytes of file per Arrow byte, by the order of magnitude of the row group."""
    _measured_max: int = 0

    def next_group_bytes(self, position: int, groups: int) -> int:
        """The Arrow bytes of the next row group; 0 where the file is full."""
        settings = self.settings
        aim = min(settings.target_file_bytes, _AIM_MAX)
        missing = aim - position - self.footer_bytes * (groups + 1)
        room = FILE_BYTES_MAX - position - self.footer_bytes * (groups + 1)
        limit = min(settings.row_group_bytes, int(room / _GROWTH))
        if groups and (missing <= _FULL * aim or limit <= 0):
            return 0
        if not self._ratios:
            return max(1, min(limit, int(aim * _PROBE)))
        limit = min(limit, _STEP * self._measured_max)
        missing = max(missing, 1.0)
        needed = self._arrow_bytes(missing)
        if needed > limit:
            # Equal row groups, not full ones and a small rest.
            return max(1, min(limit, math.ceil(needed / math.ceil(needed / limit))))
        if missing > (_HELD_BACK + 0.1) * aim:
            needed *= 1 - _HELD_BACK
        return max(1, int(needed))

    def wrote(self, arrow_bytes: int, file_bytes: int) -> None:
        """A row group was written."""
        self._ratios[_magnitude(arrow_bytes)] = max(file_bytes, 1) / max(arrow_bytes, 1)
        self._measured_max = max(self._measured_max, arrow_bytes)

    def closed(self, footer_bytes: int, groups: int) -> None:
        """A file was closed with a footer of so many bytes."""
        self.footer_bytes = footer_bytes / groups

    def _arrow_bytes(self, file_bytes: float) -> float:
        """How many Arrow bytes become so many bytes of file, in one row group if that is small enough."""
        arrow_bytes = file_bytes
        for _ in range(3):  # the ratio depends on the size that is looked for: three looks settle it
            size = min(arrow_bytes, self.settings.row_group_bytes)
            arrow_bytes = file_bytes / self._ratio(_magnitude(int(size)))
        return arrow_bytes

    def _ratio(self, magnitude: int) -> float:
        nearest = min(self._ratios, key=lambda known: (abs(known - magnitude), -known))
        return self._ratios[nearest]


def _magnitude(arrow_bytes: int) -> int:
    return max(arrow_bytes, 1).bit_length()
