"""Below: what a sink or a view reads, down to the source.

    name ──view──▶ its query ──the one relation that it reads──▶ … ──▶ CREATE SOURCE

Only Spark can say what a query reads. One that reads nothing, or several relations, is refused where it
stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from calve.config.units import nearest
from calve.model.errors import About, BadStatement
from calve.runtime.spark.query import Reads, relations_of
from calve.runtime.spark.view import View
from calve.sql.defined import Definitions
from calve.sql.pointed import at_statement
from calve.sql.tree import Create, CreateSource, CreateView


@dataclass(frozen=True, slots=True)
class Below:
    """A source, and the views over it on the way to who reads it."""

    source: CreateSource
    views: tuple[CreateView, ...] = ()
    """Each reads the one before it, the first the source."""

    @property
    def view(self) -> View | None:
        queries = tuple((str(one.name), one.query) for one in self.views)
        return View(str(self.source.name), queries) if queries else None

    @property
    def statements(self) -> tuple[Create, ...]:
        return (*self.views, self.source)


def find_below(spark: SparkSession, definitions: Definitions, name: str) -> Below:
    """The source below a relation, and the views on the way to it."""
    relations = definitions.relations
    views: list[CreateView] = []
    one = relations[name]
    while not isinstance(one, CreateSource):
        views.insert(0, one)
        known = list(relations)[: list(relations).index(one.name)]
        with at_statement(one):
            read = relations_of(spark, str(one.name), one.query, known)
            if len(read.known) != 1:
                raise _reads_wrong(str(one.name), read, known)
        one = relations[read.known[0]]
    return Below(one, tuple(views))


def _reads_wrong(view: str, read: Reads, known: list[str]) -> BadStatement:
    """A view over no source, or over several."""
    place = About("query", view, read.at)
    if read.known:
        return BadStatement(
            f"the view {view!r} reads {' and '.join(read.known)}",
            hint="A view reads one source, or one view: two streams are joined where their state is kept, in "
            "CockroachDB, Materialize or Spark.",
            about=place,
        )
    near = None if read.unknown is None else nearest(read.unknown, known)
    what = "no source" if read.unknown is None else f"{read.unknown!r}, which is not defined before it"
    return BadStatement(
        f"the view {view!r} reads {what}",
        hint=(f"Did you mean {near}? " if near else "")
        + f"A view reads one source, or one view. There {'is' if len(known) == 1 else 'are'}: "
        + f"{', '.join(known)}.",
        about=place,
    )
