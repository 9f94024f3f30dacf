"""What a preview says. Plain values: to show them needs nothing that takes long to import."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """What becomes of the table."""

    CREATE = "create"
    CHANGE = "change"
    NOTHING = "nothing"
    REFUSE = "refuse"
    LEARN = "learn"
    """Its columns come with the first messages: nobody can say yet."""


@dataclass(frozen=True, slots=True)
class ColumnPreview:
    """A column of the table, as it would be."""

    name: str
    type: str
    required: bool = False
    key: bool = False
    change: str = ""
    """What becomes of it; empty where it is there as it is."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a sink would not start."""

    code: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a sink would do to one table."""

    table: str
    catalog: str
    sink_id: str = ""
    mode: str = ""
    action: Action = Action.NOTHING
    columns: tuple[ColumnPreview, ...] = ()
    key: tuple[str, ...] = ()
    deletes: str = ""
    """How far deletes reach, and why."""
    partition: str = ""
    sort: str = ""
    location: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    resumes: int | None = None
    """The frontier that it goes on from; `None`: it begins."""
    generation: int = 0
    source: str = ""
    """What times mean."""
    readers: tuple[tuple[str, str, str], ...] = ()
    """Engines, how they do, and what to know of it."""
    changes: tuple[str, ...] = ()
    """What changes, in words."""
    refused: tuple[Refusal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same for programs. Times are texts: they have more digits than a number of JSON's."""
        body = asdict(self)
        body["resumes"] = None if self.resumes is None else str(self.resumes)
        body["readers"] = [{"reader": name, "reads": how, "note": note} for name, how, note in self.readers]
        return body
