"""Answers: what a statement of the shell does, and what it says.

    CREATE …            ─▶ defined, and understood: what is wrong with it is told at once
    SHOW …, DESCRIBE    ─▶ what is defined
    SHOW CHANGEFEED     ─▶ what the tables say of a changefeed's job
    EXPLAIN SINK        ─▶ the plan of a sink, by Spark
    DROP …              ─▶ forgotten; of a sink, its progress in the table too, unless it is kept

No secret is in an answer (P10): values that may be one are stars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calve.cli.console import show, show_table
from calve.cli.planned import SinkPlan, plan_of, show_plan
from calve.cli.terms import moment
from calve.config.columns import SourceTable
from calve.model.errors import CalveError, TableMissing
from calve.model.meaning import Meaning
from calve.sql.defined import Definitions, kind_of
from calve.sql.sink import table_said
from calve.sql.source import declared, source_of
from calve.sql.tree import (
    Create,
    CreateSecret,
    CreateSource,
    Describe,
    Drop,
    Explain,
    Show,
    ShowChangefeed,
    ShowCreate,
    Statement,
    Thing,
)
from calve.sql.understood import understand
from calve.sql.write import shown

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from calve.runtime.addresses import Address
    from calve.runtime.spark.job.job import Job

_JOB, _RESOLVED = "crdb.job_id", "crdb.resolved_hlc"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement says: words, or a table."""

    words: str = ""
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    plan: SinkPlan | None = None

    def show(self) -> None:
        """Print it."""
        if self.plan is not None:
            show_plan(self.plan)
        elif self.headings and self.rows:
            show_table(self.headings, self.rows)
        else:
            show(self.words)

    def to_json(self) -> Any:
        if self.plan is not None:
            return self.plan.to_json()
        if self.headings:
            return [dict(zip(self.headings, row, strict=True)) for row in self.rows]
        return {"done": self.words}


@dataclass(slots=True)
class Answers:
    """Gives answers about what is defined."""

    definitions: Definitions
    job: Callable[[], Job] = field(repr=False)
    """Spark is started when it is first needed."""

    def to(self, statement: Statement) -> Answer:
        """Do what a statement says."""
        match statement:
            case Show(things):
                return self._show(things)
            case ShowCreate(thing, name):
                return Answer(f"{shown(self._find(thing, name, statement))};")
            case ShowChangefeed(job):
                return self._changefeed(job)
            case Explain(name):
                self.definitions.sink(name, statement)
                return Answer(plan=plan_of(self.job(), str(name)))
            case Describe(name):
                return self._describe(name, statement)
            case Drop():
                return self._drop(statement)
        return self._create(statement)

    # ---------------------------------------------------------------- what is defined

    def _create(self, statement: Create) -> Answer:
        if not self.definitions.add(statement):
            return Answer(f"There is a {kind_of(statement)} {statement.name} already; it stays as it is.")
        try:
            understand(statement, self.definitions)
        except CalveError:
            self.definitions.drop(Drop(_thing(statement), statement.name))
            raise
        return Answer(f"The {kind_of(statement)} {statement.name} is defined.")

    def _drop(self, statement: Drop) -> Answer:
        words: list[str] = []
        known = self.definitions.sinks
        if statement.thing is Thing.SINK and not statement.keeps_progress and statement.name in known:
            words = self._forget(str(statement.name))
        if self.definitions.drop(statement) is None:
            return Answer(f"There is no {statement.thing.lower()} {statement.name}. Nothing was done.")
        kept = " Its table still knows how far it is." if statement.keeps_progress else ""
        return Answer(
            "\n".join([f"The {statement.thing.lower()} {statement.name} is dropped.{kept}", *words])
        )

    def _forget(self, sink: str) -> list[str]:
        """Take a sink's progress out of its tables. A catalog that does not answer is an error: then the sink
        stays defined, and can be dropped later."""
        from calve.runtime.addresses import opened
        from calve.runtime.drop import Drop as Dropping
        from calve.runtime.pipelines import addresses_of
        from calve.table.sinks import sink_ids

        words = []
        for address in addresses_of(self.definitions, sink):
            table = _loaded(address)
            if table is None or address.sink.sink_id not in sink_ids(table.metadata):
                words.append(f"{address.name} knows nothing of it.")
                continue
            with opened(address) as catalog:
                done = Dropping(address, catalog).run()
            words.append(f"{done.table} has forgotten it. What stays: {'; '.join(done.stays)}.")
        return words

    def _show(self, things: Thing) -> Answer:
        known = self.definitions
        match things:
            case Thing.SINK:
                rows = [(one.name, one.source, table_said(one)) for one in known.sinks.values()]
                return _table(("sink", "from", "table"), rows, "No sink is defined.")
            case Thing.SOURCE:
                found = [(one.name, str(one.origin), ", ".join(_key(one))) for one in known.sources.values()]
                return _table(("source", "reads", "key"), found, "No source is defined.")
            case Thing.VIEW:
                queries = [(one.name, " ".join(one.query.split())) for one in known.views.values()]
                return _table(("view", "query"), queries, "No view is defined.")
            case Thing.SECRET:
                kept = [(one.name, f"{one.kept} {one.place}") for one in known.secrets.values()]
                return _table(("secret", "kept in"), kept, "No secret is defined.")
        to = [(one.name, str(one.target)) for one in known.connections.values()]
        return _table(("connection", "to"), to, "No connection is defined.")

    def _find(self, thing: Thing, name: str, statement: Statement) -> Create:
        known: dict[Thing, dict[str, Any]] = {
            Thing.SECRET: dict(self.definitions.secrets),
            Thing.CONNECTION: dict(self.definitions.connections),
            Thing.SOURCE: dict(self.definitions.sources),
            Thing.VIEW: dict(self.definitions.views),
            Thing.SINK: dict(self.definitions.sinks),
        }
        found: Create = self.definitions.known(thing.lower(), name, known[thing], statement)
        return found

    # ---------------------------------------------------------------- what stands behind it

    def _describe(self, name: str, statement: Describe) -> Answer:
        """The columns of a source, a view or a sink."""
        known = self.definitions
        if name in known.sinks and name not in known.relations:
            return self._columns_of_sink(str(name))
        one = known.known("source, view or sink", name, {**known.sinks, **known.relations}, statement)
        if isinstance(one, CreateSource):
            source_of(one, replace(known, without_secrets=True))  # what is wrong with it is told first
            table = declared(replace(one, key=())).columns
            if table is None:
                return Answer(f"The source {name} declares no columns: its messages show them.")
            rows = [
                (column.name, column.type, "key" if column.name in (one.key or table.key) else "")
                for column in table.columns
            ]
            return _table(("column", "type", "key"), rows, "")
        return self._columns_of_view(str(one.name))

    def _columns_of_sink(self, name: str) -> Answer:
        plan = plan_of(self.job(), name)
        if plan.refused is not None:
            return Answer(plan=plan)
        rows = [
            (one.table, column.name, column.type, "key" if column.key else "")
            for one in plan.tables
            for column in one.columns
        ]
        return _table(("table", "column", "type", "key"), rows, "Its columns come with the first messages.")

    def _columns_of_view(self, view: str) -> Answer:
        from calve.runtime.spark.apart import apart

        columns = apart(partial(self.job().columns_of_view, view))
        return _table(("column", "type", "of the source"), columns, "")

    def _changefeed(self, job: str) -> Answer:
        """What the tables of all sinks say of a changefeed's job: the last epoch, and its snapshot."""
        from calve.runtime.pipelines import addresses_of

        rows = []
        for sink in self.definitions.sinks:
            for address in addresses_of(self.definitions, sink):
                table = _loaded(address)
                rows += [] if table is None else _epochs(address.name, table, job)
        headings = ("table", "last committed epoch", "at", "snapshot id")
        return _table(headings, rows, f"No table of a sink that is defined has a snapshot of job {job}.")


def _loaded(address: Address) -> Table | None:
    """The table at an address; `None` if there is none."""
    from calve.runtime.addresses import opened
    from calve.table.catalogs import is_there
    from calve.table.commit import load

    if not is_there(address.catalog):
        return None
    with opened(address) as catalog:
        try:
            return load(catalog, address.identifier)
        except TableMissing:
            return None


def _epochs(name: str, table: Table, job: str) -> list[tuple[str, str, str, str]]:
    """The last snapshot of a changefeed's job, if the table has one."""
    from calve.table.base import summary_texts

    for snapshot in reversed(table.metadata.snapshots):
        texts = summary_texts(snapshot)
        if texts.get(_JOB) == job and _RESOLVED in texts:
            wall = Meaning("hlc").at(Meaning("hlc").parse(texts[_RESOLVED]))
            at = "" if wall is None else moment(wall)
            return [(name, texts[_RESOLVED], at, str(snapshot.snapshot_id))]
    return []


def _table(headings: tuple[str, ...], rows: Any, nothing: str) -> Answer:
    return Answer(nothing, headings, tuple(tuple(map(str, row)) for row in rows))


def _key(one: CreateSource) -> tuple[str, ...]:
    """The key of a source, wherever it stands: KEY (…), or PRIMARY KEY in its columns."""
    return one.key or (SourceTable.of(one.columns).key if one.columns is not None else ())


def _thing(statement: Create) -> Thing:
    if isinstance(statement, CreateSecret):
        return Thing.SECRET
    return Thing(kind_of(statement).upper())
