"""Definitions: what the statements of a text define, by name.

    CREATE …, DROP … ──▶ Definitions ──▶ connections, sources, views and sinks, for whoever makes them real

Guarantee: a name stands for one thing, and what a statement refers to was defined before it. So an error of
that kind is told with its place, before anything is opened. A source and a view are both what a sink reads
from, and have their names in common.

Not here: what the options mean (connect.py, source.py, sink.py), and what can be done with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from calve.config.units import nearest
from calve.model.errors import BadStatement
from calve.sql.grammar import refused
from calve.sql.read import read
from calve.sql.secrets import read_secret
from calve.sql.tree import (
    Create,
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSinkTable,
    CreateSource,
    CreateView,
    Drop,
    Placed,
    Secret,
    Target,
    Thing,
    named,
    place_of,
)

T = TypeVar("T")
Sink = CreateSink | CreateSinkTable
Relation = CreateSource | CreateView
_UNREAD = "secret"


@dataclass(slots=True)
class Definitions:
    """All that is defined so far."""

    folder: Path = field(default_factory=Path.cwd)
    """Where paths begin that are not absolute: beside the file, so that it means the same from anywhere."""
    secrets: dict[str, CreateSecret] = field(default_factory=dict)
    connections: dict[str, CreateConnection] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    without_secrets: bool = False
    """Whether secrets are not read: then a word stands for each, for who wants to know all else."""

    @classmethod
    def of_text(cls, text: str, folder: Path, *, without_secrets: bool = False) -> Definitions:
        """What a text defines. Questions belong to a shell, not to a pipeline."""
        found = cls(folder, without_secrets=without_secrets)
        for statement in read(text):
            if isinstance(statement, Create):
                found.add(statement)
            elif isinstance(statement, Drop):
                found.drop(statement)
            else:
                raise refused(
                    "a pipeline defines what is to run, and this asks a question",
                    statement.text,
                    statement.at,
                    "Ask it in the shell: calve sql pipeline.sql.",
                )
        return found

    @property
    def sources(self) -> dict[str, CreateSource]:
        return {name: one for name, one in self.relations.items() if isinstance(one, CreateSource)}

    @property
    def views(self) -> dict[str, CreateView]:
        return {name: one for name, one in self.relations.items() if isinstance(one, CreateView)}

    def add(self, statement: Create) -> bool:
        """Take a definition in; False where there is one by that name, and the statement says that it may."""
        kind, known = self._known(statement)
        other = known.get(statement.name)
        if other is not None and statement.if_absent:
            return False
        if other is not None:
            raise refused(
                f"there is a {kind_of(other)} {statement.name!r} already",
                statement.text,
                place_of(statement.name),
                f"Give the {kind} another name, or write CREATE … IF NOT EXISTS to keep the first.",
            )
        self._check_references(statement)
        known[str(statement.name)] = statement
        return True

    def drop(self, statement: Drop) -> Create | None:
        """Take a definition out. None where it is not there, and the statement says that it may."""
        known = self._by_thing(statement.thing)
        one = known.get(statement.name)
        wanted = {Thing.SOURCE: CreateSource, Thing.VIEW: CreateView}.get(statement.thing)
        if one is None or (wanted is not None and not isinstance(one, wanted)):
            if statement.if_there:
                return None
            raise self._unknown(statement.thing.lower(), statement.name, known, statement)
        if (user := self._user_of(statement.thing, statement.name)) is not None:
            raise refused(
                f"the {statement.thing.lower()} {statement.name!r} is used by {user}",
                statement.text,
                place_of(statement.name),
                "Drop that first.",
            )
        del known[statement.name]
        return one

    def reveal(self, secret: CreateSecret) -> str:
        """What a secret holds."""
        return _UNREAD if self.without_secrets else read_secret(secret, self.folder)

    def sink(self, name: str, asked_by: Placed | None = None) -> Sink:
        """A sink by its name."""
        return self.known("sink", name, self.sinks, asked_by)

    def known(self, what: str, name: str, among: Mapping[str, T], asked_by: Placed | None = None) -> T:
        """One of these by its name, or an error that names the nearest."""
        if name not in among:
            raise self._unknown(what, name, among, asked_by)
        return among[name]

    def connection(self, name: str, target: Target, asked_by: Placed, at: int) -> CreateConnection:
        """A connection that leads where it must."""
        known = {one: said for one, said in self.connections.items() if said.target is target}
        what = f"connection TO {target}"
        if name in self.connections and name not in known:
            raise refused(
                f"the connection {name!r} leads TO {self.connections[name].target}, and this needs one TO "
                f"{target}",
                asked_by.text,
                at,
                _listed(known, what),
            )
        if name not in known:
            raise self._unknown(what, name, known, asked_by, at)
        return known[name]

    # ---------------------------------------------------------------- names

    def _known(self, statement: Create) -> tuple[str, dict[str, Create]]:
        thing = {
            CreateSecret: Thing.SECRET,
            CreateConnection: Thing.CONNECTION,
            CreateSource: Thing.SOURCE,
            CreateView: Thing.VIEW,
        }.get(type(statement), Thing.SINK)
        return thing.lower(), self._by_thing(thing)

    def _by_thing(self, thing: Thing) -> dict[str, Create]:
        kinds: dict[Thing, object] = {
            Thing.SECRET: self.secrets,
            Thing.CONNECTION: self.connections,
            Thing.SOURCE: self.relations,
            Thing.VIEW: self.relations,
            Thing.SINK: self.sinks,
        }
        return kinds[thing]  # type: ignore[return-value]

    def _check_references(self, statement: Create) -> None:
        for one in references(statement):
            known = self._by_thing(one.thing)
            if one.name not in known:
                what = "source or view" if one.thing is Thing.SOURCE else one.thing.lower()
                raise self._unknown(what, one.name, known, statement, one.at)
        if isinstance(statement, CreateSink):
            for name, target in ((statement.catalog, Target.ICEBERG), (statement.aws, Target.AWS)):
                if name is not None:
                    self.connection(name, target, statement, place_of(name))

    def _user_of(self, thing: Thing, name: str) -> str | None:
        """Something that refers to it. What a view reads from only Spark can say, when it is used."""
        kinds = (Thing.SOURCE, Thing.VIEW) if thing in (Thing.SOURCE, Thing.VIEW) else (thing,)
        for user in (*self.connections.values(), *self.relations.values(), *self.sinks.values()):
            if any(one.thing in kinds and one.name == name for one in references(user)):
                return f"the {kind_of(user)} {user.name!r}"
        return None

    def _unknown(
        self, what: str, name: str, known: Mapping[str, object], by: Placed | None, at: int | None = None
    ) -> BadStatement:
        near = nearest(name, list(known))
        hint = f"Did you mean {near}? " if near else ""
        reason = f"there is no {what} {name!r}"
        if by is None:
            return BadStatement(reason, hint=hint + _listed(known, what))
        return refused(reason, by.text, place_of(name) if at is None else at, hint + _listed(known, what))


@dataclass(frozen=True, slots=True)
class Reference:
    """What a statement speaks of by its name."""

    thing: Thing
    name: str
    at: int


def references(statement: Create) -> Iterator[Reference]:
    """All that a statement refers to, but for the relations of a view: these only Spark can read."""
    if isinstance(statement, CreateSink | CreateSinkTable):
        yield Reference(Thing.SOURCE, statement.source, place_of(statement.source))
    if isinstance(statement, CreateSink):
        for name in (statement.catalog, statement.aws):
            if name is not None:
                yield Reference(Thing.CONNECTION, name, place_of(name))
    if isinstance(statement, CreateSecret | CreateView):
        return
    for option in statement.options:
        if isinstance(option.value, Secret):
            yield Reference(Thing.SECRET, option.value.name, option.at)
        elif option.name.rpartition(" ")[2] == "connection":
            yield Reference(Thing.CONNECTION, named(option.value), option.at)


def kind_of(statement: Create) -> str:
    """What a statement makes, as a word."""
    return {
        CreateSecret: "secret",
        CreateConnection: "connection",
        CreateSource: "source",
        CreateView: "view",
    }.get(type(statement), "sink")


def _listed(known: Mapping[str, object], what: str) -> str:
    if not known:
        return f"No {what} is defined before this statement."
    return f"There {'is' if len(known) == 1 else 'are'}: {', '.join(sorted(known))}."
