"""Queries: what Spark says of one that a person wrote, in fewer words.

text ──▶ relations that it reads ──▶ which of them is the source of a view
     └─▶ a frame, or what is wrong with it: Spark's own words, without its stack and its codes, and where
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from calve.model.errors import About, BadStatement
from calve.runtime.spark.frame import quoted

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION"
_CODES = re.compile(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+")
_PLACE = re.compile(r"[;.]? ?\(?line (\d+),? pos (\d+)\)?\.?$")


@dataclass(slots=True)
class Reads:
    """The relations that a query reads, as far as Spark told."""

    known: list[str] = field(default_factory=list)
    unknown: str | None = None
    at: int | None = None
    """Where in the query the last of them stands."""


def relations_of(session: SparkSession, view: str, query: str, known: Collection[str]) -> Reads:
    """Of the relations that are known by name, those that a query reads. Spark says which it looks for: it
    knows what is a name of a table, and what one of the query's own."""
    apart = session.newSession()
    found = Reads()
    for _ in range(len(known) + 1):
        try:
            with quiet_logs():
                apart.sql(query)
        except ParseException as error:
            raise _unreadable(view, query, error) from None
        except AnalysisException as error:
            if error.getCondition() != _NOT_FOUND:
                break  # told when the query is run
            missing, found.at = _relation(error), place_of(error)
            if missing not in known:
                found.unknown = missing
                break
            apart.createDataFrame([], "nothing int").createOrReplaceTempView(quoted(missing))
            found.known.append(missing)
        except PySparkException:
            break
        else:
            break
    return found


def analyzed(session: SparkSession, name: str, query: str) -> DataFrame:
    """A query as Spark reads it. What it cannot read is told with its own words and place."""
    try:
        with quiet_logs():
            return session.sql(query)
    except ParseException as error:
        raise _unreadable(name, query, error) from None
    except AnalysisException as error:
        about = About("query", name, place_of(error))
        if error.getCondition() == _NOT_FOUND:
            raise BadStatement(
                f"the view {name!r} asks {_relation(error)!r} too, and a view reads one source, or one view",
                hint="Select from the source alone: another table may change without a change of the row.",
                about=about,
            ) from None
        if str(error.getCondition()).startswith(_SUBQUERY):
            raise BadStatement(
                f"the view {name!r} asks a table about a row (a subquery), and that may change without a "
                "change of the row",
                hint="Select from the source alone, row by row.",
                about=about,
            ) from None
        raise BadStatement(
            f"the view {name!r} cannot be understood: {words(error)[0]}",
            hint="It may name the columns of its source, and Spark's functions.",
            about=about,
        ) from None


@contextmanager
def quiet_logs() -> Iterator[None]:
    """PySpark logs what it raises, all of Java's stack with it: an error is told once, by us."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def _unreadable(view: str, query: str, error: ParseException) -> BadStatement:
    said, _, _ = words(error)
    return BadStatement(
        f"the view {view!r} cannot be read: {said}",
        hint="It is in Spark's SQL; names with other marks stand in `backticks`.",
        about=About("query", view, parsed_to(query, error)),
    )


def parsed_to(query: str, error: ParseException) -> int:
    """How far Spark could read a query."""
    _, line, column = words(error)
    return min(sum(len(one) + 1 for one in query.split("\n")[: line - 1]) + column, len(query))


def place_of(error: PySparkException) -> int | None:
    """Where in the query it is, as far as Spark knows."""
    return next((one.startIndex() for one in error.getQueryContext() if one.startIndex() >= 0), None)


def _relation(error: AnalysisException) -> str:
    return (error.getMessageParameters() or {}).get("relationName", "").replace("`", "").lower()


def words(error: PySparkException) -> tuple[str, int, int]:
    """Spark's own words, without its codes and its plan; the line that they name, and the letters before it
    in that line: of a query that cannot be parsed Spark tells its place in no other way."""
    said = str(error).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].partition("\n\n==")[0]
    text = _CODES.sub("", " ".join(said.split())).strip()
    place = _PLACE.search(text)
    if place is None:
        return text, 1, 0
    return text[: place.start()].rstrip(" .;"), int(place[1]), int(place[2])
