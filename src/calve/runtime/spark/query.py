"""Queries: what Spark says of one that a person wrote, in fewer words.

text ──▶ relations that it reads ──▶ which of them is the source of a view
     └─▶ a frame, or what is wrong with it: Spark's own words, without its stack and its codes
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from calve.model.errors import BadStatement
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
            raise _unreadable(view, error) from None
        except AnalysisException as error:
            if error.getCondition() != _NOT_FOUND:
                break  # told when the query is run
            missing = _relation(error)
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
        raise _unreadable(name, error) from None
    except AnalysisException as error:
        if error.getCondition() == _NOT_FOUND:
            raise BadStatement(
                f"the view {name!r} asks {_relation(error)!r} too, and a view reads one source, or one view",
                hint="Select from the source alone: another table may change without a change of the row.",
            ) from None
        if str(error.getCondition()).startswith(_SUBQUERY):
            raise BadStatement(
                f"the view {name!r} asks a table about a row (a subquery), and that may change without a "
                "change of the row",
                hint="Select from the source alone, row by row.",
            ) from None
        raise BadStatement(
            f"the query of view {name!r} cannot be understood: {_words(error)}",
            hint="It may name the columns of its source, and Spark's functions.",
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


def _unreadable(view: str, error: ParseException) -> BadStatement:
    return BadStatement(
        f"the query of view {view!r} cannot be read: {_words(error)}",
        hint="It is in Spark's SQL; names with other marks stand in `backticks`.",
    )


def _relation(error: AnalysisException) -> str:
    return (error.getMessageParameters() or {}).get("relationName", "").replace("`", "").lower()


def _words(error: PySparkException) -> str:
    """Spark's own words, without its codes and its plan; the place within the query last."""
    said = str(error).partition(";\n")[0].partition("\n\nJVM stacktrace")[0].partition("\n\n==")[0]
    text = _CODES.sub("", " ".join(said.split())).strip()
    place = _PLACE.search(text)
    if place is None:
        return text
    words = text[: place.start()].rstrip(" .;")
    return f"{words} (line {place[1]}, column {int(place[2]) + 1} of the query)"
