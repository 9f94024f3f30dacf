"""View: a query of Spark's over changes. A filter over changes is not a filter over rows.

    changes ─▶ rows + what is hidden of them ─▶ the query's projections and filters ─▶ changes

An order that stops being paid must leave a table of paid orders. So a change whose row fails the filter is
kept, and becomes a delete of its key; where it never was in the table, that harms nobody. The query is read
by Spark, and its plan is rebuilt: a projection carries along what is hidden, a filter becomes a column that
says whether the row is there. What the query makes of a row is made only where the row is there, as a filter
below it would have it: a division that the filter guards meets no zero.

That is right for a query that looks at one row at a time and says the same of it at any time. Everything else
is refused, with its reason: a join or an aggregate over changes would be of the rows of one micro-batch, and
a row whose age a filter asks for leaves the table without a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import RESERVED
from calve.model.errors import About, BadKey, BadStatement, SchemaMismatch
from calve.runtime.spark.frame import quoted
from calve.runtime.spark.query import analyzed

_KEEP = RESERVED + "there"
"""Whether the row of a change is in the view."""
_LEAF = RESERVED + "changes"
_UUID = "uuid"

_STATEFUL = {
    "Aggregate": "groups rows (GROUP BY, DISTINCT or an aggregate)",
    "Distinct": "leaves out rows that are equal to others (DISTINCT)",
    "Deduplicate": "leaves out rows that are equal to others",
    "Except": "compares rows with those of another query (EXCEPT)",
    "Intersect": "compares rows with those of another query (INTERSECT)",
    "GlobalLimit": "counts rows (LIMIT)",
    "LocalLimit": "counts rows (LIMIT)",
    "Join": "joins",
    "LateralJoin": "joins",
    "Offset": "counts rows (OFFSET)",
    "Sample": "takes some rows by chance (TABLESAMPLE)",
    "Sort": "orders rows (ORDER BY)",
    "Window": "looks at several rows at once (OVER)",
    "WithWindowDefinition": "looks at several rows at once (OVER)",
}
_SEVERAL = {
    "Generate": "makes several rows of one (explode, LATERAL VIEW)",
    "Expand": "makes several rows of one",
    "Union": "puts the rows of two queries together (UNION)",
}
_NO, _YES = "refused", "yes"
REFUSED = (
    *((words, _NO, _NO) for words in dict.fromkeys(_STATEFUL.values())),
    *((words, _NO, _YES) for words in dict.fromkeys(_SEVERAL.values())),
    ("asks another table about a row (a subquery)", _NO, _NO),
    ("asks for the time of day, or for chance (`now()`, `rand()`, `uuid()`)", _NO, _YES),
    ("leaves out a column of the key, or changes it", _NO, _YES),
    ("reads two sources or views", _NO, _NO),
)
"""What a view cannot be, over changes and in append mode, for the documentation."""
CLOCKS = (
    *("CurrentTimestamp", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime", "CurrentTimeZone"),
    *("CurrentUser", "CurrentDatabase", "CurrentCatalog"),
)
"""What depends on when, and by whom, a query is run."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Changes, as a view shows them."""

    frame: DataFrame
    origins: Mapping[str, str]
    """Columns that are a column of the source as it is, under this name or another."""
    carried: tuple[tuple[str, str], ...] = ()
    filters: bool = False
    """Whether rows of the source may be missing."""

    def key(self, key: Sequence[str], view: str) -> tuple[str, ...]:
        """The key of the source, by the names that it has in the view."""
        found = []
        for column in key:
            name = next((name for name, origin in self.origins.items() if origin == column), None)
            if name is None:
                raise BadKey(
                    f"the view {view!r} does not show {column!r} as it is, which is part of the key of its "
                    "source: nothing would say which row a change is of",
                    hint=f"Add {column} to what it selects; under another name it may stand: {column} AS "
                    f"{column}_of_source.",
                    about=About("query", view),
                )
            found.append(name)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class View:
    """Queries, each over the one before it, the first over a source."""

    source: str
    queries: tuple[tuple[str, str], ...]
    """Names and texts."""

    @property
    def name(self) -> str:
        return self.queries[-1][0]

    def over_changes(self, changes: DataFrame, op: str, carried: tuple[tuple[str, str], ...] = ()) -> Seen:
        """The changes of the view. `op` is the column of what happened; `carried` are columns in carriers."""
        hidden = [name for name in changes.columns if name.startswith(RESERVED) or name == op]
        rows = [name for name in changes.columns if name not in hidden]
        kinds = dict(carried)
        shown = [_shown(name, kinds.get(name)) for name in rows]
        live = _is_live(F.col(quoted(op)), changes.schema[op].dataType).alias(_KEEP)
        leaf = changes.select(*shown, *map(quoted, hidden), live).alias(_LEAF)
        plan = self._analyzed(leaf.select(*map(quoted, rows)))
        walk = _Walk(changes.sparkSession, self, frozenset((*hidden, _KEEP)))
        built = walk.rebuilt(plan)
        frame = _frame(changes.sparkSession, built)
        kept = frame[quoted(_KEEP)]
        word = F.col(quoted(op))
        gone = -F.abs(word) if _is_number(changes.schema[op].dataType) else F.lit("delete")
        frame = frame.withColumn(
            op, F.when(kept | ~_live(word, changes.schema[op].dataType), word).otherwise(gone)
        )
        frame = frame.drop(_KEEP)
        origins = walk.origins_of(built)
        still = tuple((name, kinds[origin]) for name, origin in origins.items() if origin in kinds)
        for name, kind in still:
            if kind == _UUID:
                frame = frame.withColumn(name, F.unhex(F.replace(F.col(quoted(name)), F.lit("-"))))
        return Seen(frame, origins, still, walk.filters)

    def about(self, node: Any) -> About:
        """Where a part of Spark's plan was written: Spark knows it by the text that it read."""
        text, start = node.origin().sqlText(), node.origin().startIndex()
        for name, query in self.queries:
            if text.isDefined() and start.isDefined() and text.get() == query:
                return About("query", name, start.get())
        return About("query", self.name)

    def over_rows(self, rows: DataFrame) -> DataFrame:
        """The rows of the view, in append mode: every query that needs no memory is right there."""
        frame = self._run(rows.alias(_LEAF))
        check = _Walk(rows.sparkSession, self, frozenset())
        check.stateless(frame._jdf.queryExecution().analyzed())
        return frame

    def _analyzed(self, rows: DataFrame) -> Any:
        return self._run(rows)._jdf.queryExecution().analyzed()

    def _run(self, rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        rows.createOrReplaceTempView(quoted(self.source))
        made = [self.source]
        try:
            *before, (last, wanted) = self.queries
            for name, query in before:
                analyzed(session, name, query).createOrReplaceTempView(quoted(name))
                made.append(name)
            return analyzed(session, last, wanted)
        finally:
            for name in made:
                session.catalog.dropTempView(name)


@dataclass(slots=True)
class _Walk:
    """Down the plan of a query, and up again with what is hidden."""

    session: SparkSession
    view: View
    hidden: frozenset[str]
    _ctes: dict[int, Any] = field(default_factory=dict)
    _origins: dict[int, str] = field(default_factory=dict)
    """Of attributes, by their ids, the column of the source that they are."""
    filters: bool = False

    @property
    def _logical(self) -> Any:
        return self.session._jvm.org.apache.spark.sql.catalyst.plans.logical

    @property
    def _expressions(self) -> Any:
        return self.session._jvm.org.apache.spark.sql.catalyst.expressions

    def rebuilt(self, node: Any) -> Any:
        """The same plan over changes."""
        match node.nodeName():
            case "SubqueryAlias" if node.alias() == _LEAF:
                for attribute in _each(node.output()):
                    self._origins[attribute.exprId().id()] = attribute.name()
                return node
            case "SubqueryAlias" | "View" | "ResolvedHint":
                return self.rebuilt(node.child())
            case "WithCTE":
                for one in _each(node.cteDefs()):
                    self._ctes[one.id()] = one.child()
                return self.rebuilt(node.plan())
            case "CTERelationRef":
                return self.rebuilt(self._ctes[node.cteId()])
            case "Project":
                return self._project(node)
            case "Filter":
                return self._filter(node)
        raise self._refused(node)

    def origins_of(self, plan: Any) -> dict[str, str]:
        """Columns of a plan that are columns of the source as they are."""
        return {
            one.name(): self._origins[one.exprId().id()]
            for one in _each(plan.output())
            if one.exprId().id() in self._origins and one.name() not in self.hidden
        }

    def stateless(self, node: Any) -> None:
        """Refuse a query that needs to remember rows. What its rows come from is not the query's."""
        if node.nodeName() == "SubqueryAlias" and node.alias() == _LEAF:
            return
        if (why := _STATEFUL.get(node.nodeName())) is not None:
            raise self._stateful(why, self.view.about(node))
        for child in _each(node.children()):
            self.stateless(child)

    def _project(self, node: Any) -> Any:
        child = self.rebuilt(node.child())
        along = {one.name(): one for one in _each(child.output()) if one.name() in self.hidden}
        made = []
        for one in _each(node.projectList()):
            self._check(one)
            plain = one if one.nodeName() == "AttributeReference" else one.children().apply(0)
            if plain.nodeName() != "AttributeReference":
                made.append(self._guarded(one, along[_KEEP]))
                continue
            made.append(one)
            if (origin := self._origins.get(plain.exprId().id())) is not None:
                self._origins[one.exprId().id()] = origin
        return self._logical.Project(self._seq([*made, *along.values()]), child)

    def _filter(self, node: Any) -> Any:
        child = self.rebuilt(node.child())
        self.filters = True
        self._check(node.condition())
        outputs = list(_each(child.output()))
        keep = next(one for one in outputs if one.name() == _KEEP)
        # Null where nobody can say whether the filter holds: that is not there, as a filter has it.
        kept = self._named(self._expressions.And(keep, node.condition()))
        others = [one for one in outputs if one.name() != _KEEP]
        return self._logical.Project(self._seq([*others, kept]), child)

    def _guarded(self, one: Any, keep: Any) -> Any:
        """What a query makes of a row, where the row is there."""
        value = one.children().apply(0)
        nothing = self._expressions.Literal.create(None, value.dataType())
        return one.withNewChildren(self._seq([self._expressions.If(keep, value, nothing)]))

    def _check(self, expression: Any) -> None:
        """Refuse what would not say the same of a row at another time."""
        if "Subquery" in expression.nodeName() or expression.nodeName() in ("Exists", "ListQuery"):
            about = self.view.about(expression)
            raise BadStatement(
                f"the view {about.word!r} asks another table about a row (a subquery), and that may change "
                "without a change of the row",
                hint="Select from the source alone, row by row.",
                about=about,
            )
        if expression.getClass().getSimpleName() in CLOCKS or not expression.deterministic():
            about = self.view.about(expression)
            raise BadStatement(
                f"the view {about.word!r} has {expression.sql()!s}, which says something else of the same "
                "row at another time: the table would not be the source at any time",
                hint="Use columns of the row, such as a time that it carries. In append mode any query goes.",
                about=about,
            )
        for child in _each(expression.children()):
            self._check(child)

    def _refused(self, node: Any) -> BadStatement:
        name, about = node.nodeName(), self.view.about(node)
        if name in _STATEFUL:
            return self._stateful(_STATEFUL[name], about)
        why = _SEVERAL.get(name, f"is of another kind ({name})")
        return BadStatement(
            f"the view {about.word!r} {why}: over changes a view selects and filters rows, one by one",
            hint="Let the sink write its source as it is, and query the table. In append mode more goes.",
            about=about,
        )

    def _stateful(self, why: str, about: About) -> BadStatement:
        return BadStatement(
            f"the view {about.word!r} {why}: over a stream that would be of the rows of one micro-batch, not "
            "of all that there are",
            hint="Let the sink write its source as it is, and query the table. Or keep that view where it is "
            "kept up to date, in CockroachDB, Materialize or Spark, and stream its changes.",
            about=about,
        )

    def _seq(self, parts: Sequence[Any]) -> Any:
        jvm: Any = self.session._jvm
        return jvm.PythonUtils.toSeq(list(parts))

    def _named(self, expression: Any) -> Any:
        jvm: Any = self.session._jvm
        none = jvm.scala.Option.empty()
        ids = jvm.org.apache.spark.sql.catalyst.expressions.NamedExpression
        return self._expressions.Alias(expression, _KEEP, ids.newExprId(), self._seq([]), none, self._seq([]))


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    jvm: Any = session._jvm
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return DataFrame(made, session)


def _each(parts: Any) -> list[Any]:
    """The parts of a Scala sequence."""
    return [parts.apply(place) for place in range(parts.size())]


def _shown(name: str, kind: str | None) -> Column:
    """A column as a query sees it: a uuid as text, and not as its bytes."""
    column = F.col(quoted(name))
    if kind != _UUID:
        return column
    text = F.lower(F.hex(column))
    starts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    parts = [F.substring(text, first, length) for first, length in starts]
    # Where there is none there is no text: `concat_ws` would make an empty one.
    return F.when(column.isNotNull(), F.concat_ws("-", *parts)).alias(name)


def as_text(rows: DataFrame, carried: tuple[tuple[str, str], ...]) -> DataFrame:
    """Rows with their uuids as text, as readers of tables show them."""
    kinds = dict(carried)
    return rows.select(*(_shown(name, kinds.get(name)) for name in rows.columns))


def _is_live(op: Column, kind: T.DataType) -> Column:
    return F.coalesce(_live(op, kind), F.lit(False))


def _live(op: Column, kind: T.DataType) -> Column:
    """Whether a row is there after a change."""
    if _is_number(kind):
        return op > 0
    if not isinstance(kind, T.StringType):
        raise SchemaMismatch(
            f"the op column is {kind.simpleString()}", hint="An op is a word such as 'upsert', or a number."
        )
    return op.isNotNull() & ~op.isin("D", "-D", "-U", "d", "delete")


def _is_number(kind: T.DataType) -> bool:
    return isinstance(kind, T.IntegralType)
