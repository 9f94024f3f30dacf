"""Messages: what every envelope reads, and how it says that it can make nothing of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from calve.decode.structs import Place
from calve.model.columns import ERROR, PLACE, RAW
from calve.model.errors import SchemaMismatch

_RAW_CHARACTERS = 100_000
"""Of a bad message; what is longer is cut."""


_SHAPES = 1_024
"""How many shapes are told apart at most: each is looked at."""

_PLACES = ("topic", "partition", "offset", "file", "line")


def placed_by(raw: DataFrame) -> list[str]:
    """The columns that say where a message stands. They are carried along, and made a text only where one is
    asked for: that costs more than to parse a message."""
    return [name for name in _PLACES if name in raw.columns]


def place_of(raw: DataFrame) -> Column:
    """Where a message stands, by its file and line, or by its topic, partition and offset, if it has one."""
    if "file" in raw.columns:
        return F.format_string("file %s, line %s", F.col("file"), F.col("line"))
    partition = F.format_string("topic %s, partition %s", F.col("topic"), F.col("partition"))
    numbered = F.concat(partition, F.format_string(", offset %s", F.col("offset")))
    return F.coalesce(F.when(F.col("offset").isNotNull(), numbered), partition)


def names_in(text: Column, *path: str) -> Column:
    """The names of an object in a message of JSON; null where there is none."""
    return F.json_object_keys(F.get_json_object(text, ".".join(("$", *path))) if path else text)


def shape(value: Column, *path: str) -> Column:
    """A number that tells apart messages of JSON by the names in one of its objects."""
    names = F.array_sort(names_in(value.cast("string"), *path))
    return F.pmod(F.xxhash64(names), F.lit(_SHAPES))


def errors(error: Column, place: Column, raw: Column) -> tuple[Column, Column, Column]:
    """The columns that tell of a bad message; they cost nothing where there is none."""
    bad = error.isNotNull()
    return (
        error.alias(ERROR),
        F.when(bad, place).alias(PLACE),
        F.when(bad, F.left(raw, F.lit(_RAW_CHARACTERS))).alias(RAW),
    )


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """An expression that uses a value several times, which is computed once. It is interpreted: what is
    rarely needed belongs here, because Java does not compile methods of more than 8,000 bytes, and one that
    holds all that can be wrong with a message is longer."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def once(column: Column) -> Column:
    """A column that is computed once. Spark pushes filters below the column that they are about and computes
    it there again, from_json and all: unless it might be another one each time, which it is told here."""
    return F.when(F.monotonically_increasing_id() >= 0, column)


def refuse_names(names: Sequence[str], own: Sequence[str]) -> None:
    """Refuse columns that are called as what a message has of its own, beside them."""
    for name in names:
        if name.lower() in own:
            raise SchemaMismatch(
                f"a column is called {name!r}, and so is what each message has beside its columns: the two "
                "cannot be told apart",
                hint="Rename it at the source, or choose an envelope whose rows are objects of their own.",
            )


def value_of(name: str, place: Place | None) -> Column:
    """A column of a topic that stands in a struct; null where it is not there."""
    if place is None or name not in place.fields:
        return F.lit(None)
    return F.col(place.column)[place.fields[name]]


def quoted(name: str) -> str:
    """A column's whole name, which may hold a dot."""
    return "`" + name.replace("`", "``") + "`"
