"""Planned: what a sink would do, as `calve plan` and EXPLAIN SINK show it.

sink paid, from orders

  + shop.paid is created
    in          sql, sqlite:////data/lake/catalog.db
    columns     id     long    required, key
                total  double
    …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from calve.cli import layout
from calve.cli.console import columns, show, show_named
from calve.cli.ground import CHANGES, FAILED, OK
from calve.cli.terms import whole_time
from calve.model.errors import CalveError
from calve.model.meaning import Meaning
from calve.runtime.previewed import Action, Preview, Refusal

if TYPE_CHECKING:
    from calve.runtime.spark.job.job import Job

_ACTIONS = {
    Action.CREATE: ("+", "is created", "green"),
    Action.CHANGE: ("~", "changes", "yellow"),
    Action.NOTHING: ("=", "is as it should be", ""),
    Action.REFUSE: ("!", "is refused", "red"),
    Action.LEARN: ("?", "is created with the first messages, which show its columns", "green"),
}
_INDENT, _NAMES = 4, len("partition")
_READS = {
    "right": "right",
    "right with a setting": "setting",
    "refuses": "refuse",
    "wrong": "wrong",
    "not tried": "untried",
}
"""How readers do, in a word, and in this order."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What a sink would do."""

    sink: str
    source: str
    tables: tuple[Preview, ...] = ()
    refused: Refusal | None = None
    """It could not even be looked at."""
    notes: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        if self.refused is not None or any(one.action is Action.REFUSE for one in self.tables):
            return FAILED
        return OK if all(one.action is Action.NOTHING for one in self.tables) else CHANGES

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"sink": self.sink, "source": self.source, "notes": list(self.notes)}
        if self.refused is not None:
            body["refused"] = {
                "code": self.refused.code,
                "reason": self.refused.reason,
                "hint": self.refused.hint,
            }
        return {**body, "tables": [one.to_json() for one in self.tables]}


def plan_of(ready: Job, name: str) -> SinkPlan:
    """What a sink would do. What is refused is part of the plan."""
    from calve.runtime.spark.apart import apart
    from calve.runtime.spark.job.preview import previews

    source = str(ready.definitions.sink(name).source)

    def look() -> SinkPlan:
        prepared = ready.prepare(name)
        return SinkPlan(name, source, tuple(previews(prepared)), None, prepared.asked.notes)

    try:
        return apart(look)
    except CalveError as error:
        return SinkPlan(name, source, refused=Refusal(error.code, error.message, error.hint))


def worst(plans: list[SinkPlan]) -> int:
    """The exit code of all sinks: refused, then changes, then nothing to do."""
    codes = {one.code for one in plans}
    return next((code for code in (FAILED, CHANGES) if code in codes), OK)


def show_plan(one: SinkPlan) -> None:
    """A sink's plan."""
    show(Text.assemble(("sink ", "dim"), (one.sink, "bold"), (f", from {one.source}", "dim")))
    show_named([("note", note) for note in one.notes], _INDENT, _NAMES)
    if one.refused is not None:
        show("")
        show(Text("  ! is refused", "bold red"))
        show_named(_refusal(one.refused), _INDENT, _NAMES)
    for table in one.tables:
        show("")
        sign, word, style = _ACTIONS[table.action]
        show(Text(f"  {sign} {table.table} {word}", f"bold {style}".strip()))
        show_named(_lines(table), _INDENT, _NAMES)
    show("")


def show_summary(plans: list[SinkPlan]) -> None:
    """All of it in a line."""
    tables = [table.action for one in plans for table in one.tables]
    counts = {
        "to create": tables.count(Action.CREATE) + tables.count(Action.LEARN),
        "to change": tables.count(Action.CHANGE),
        "as it should be": tables.count(Action.NOTHING),
    }
    said = [f"{count} {word}" for word, count in counts.items() if count]
    refused = sum(one.code == FAILED for one in plans)
    said += [f"{refused} {'sink is' if refused == 1 else 'sinks are'} refused"] if refused else []
    show(f"Plan: {', '.join(said) or 'nothing'}. Nothing was changed.")


def _lines(one: Preview) -> Iterator[layout.Named]:
    for refusal in one.refused:
        yield from _refusal(refusal)
    yield "in", one.catalog
    yield "place", one.location
    yield "mode", f"{one.mode}, key ({', '.join(one.key)})" if one.key else one.mode
    yield "columns", _columns(one)
    yield "partition", one.partition
    yield "sort", _unless_none(one.sort)
    yield "sets", [f"{name} = {value}" for name, value in sorted(one.properties.items())]
    yield "begins" if one.resumes is None or not one.generation else "goes on", _resumes(one)
    yield "deletes", one.deletes
    yield "readers", _readers(one)


def _columns(one: Preview) -> list[Text]:
    """The columns of the table; of one that is there, with what becomes of them."""
    is_there = one.action not in (Action.CREATE, Action.LEARN)
    rows = []
    for column in one.columns:
        words = ["required"] if column.required else []
        words += ["key"] if column.key else []
        change = Text(column.change if is_there else "", "yellow")
        rows.append((column.name, column.type, ", ".join(words), change))
    return list(layout.table(("", "", "", ""), rows, width=_room()))


def _unless_none(text: str) -> str:
    return "" if text == "none" else text


def _resumes(one: Preview) -> str:
    if one.action is Action.REFUSE:
        return ""
    meaning = Meaning(one.source)
    if one.resumes is None or not one.generation:
        times = f"; times are {meaning.words}" if one.source else ""
        return f"with all that its source has{times}"
    return f"at {whole_time(meaning, one.resumes)}, as run {one.generation + 1}"


def _readers(one: Preview) -> list[str | Text]:
    """Engines by how they do, a line each."""
    if not one.columns:
        return []
    by: dict[str, list[str]] = {}
    for name, how, note in one.readers:
        # Which Iceberg an engine was tried with is in --json, and in docs/readers.md.
        short = name.partition(" with ")[0]
        by.setdefault(_READS[how], []).append(
            f"{layout.tied(short)} ({note})" if note else layout.tied(short)
        )
    if list(by) == ["right"]:
        return ["every engine that reads Iceberg"]
    rows = [(how, ", ".join(by[how])) for how in _READS.values() if how in by]
    return list(layout.table(("", ""), rows, width=_room()))


def _room() -> int | None:
    """What a value has of a line."""
    width = columns()
    return None if width is None else width - _INDENT - _NAMES - len(layout.GAP)


def _refusal(one: Refusal) -> Iterator[layout.Named]:
    yield "refused", f"{one.code}: {one.reason}"
    yield "hint", one.hint
