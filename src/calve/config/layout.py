"""Layout as text: `DAYS(ts), bucket(16, id), region` and `event_time desc nulls last, id`.

    text ──▶ tokens ──▶ PartitionField, SortField, column names

A name in double quotes or backticks is taken literally; a doubled quote inside stands for itself. An
error names the text, the position and the nearest right word. `format_*` is the inverse of `parse_*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from calve.config.names import check_column
from calve.config.units import nearest, one_of
from calve.model.errors import About, BadPartition, ConfigError
from calve.model.layout import WIDTH_MAX, PartitionField, SortField, Transform, TransformKind

_TOKEN = re.compile(r'(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<mark>[(),])|(?P<word>[^\s(),"`]+)')
_PLAIN = re.compile(r"[^\s(),\"`]+")
_NUMBER = re.compile(r"[0-9]+", re.ASCII)

_KINDS = {kind.value: kind for kind in TransformKind} | {
    f"{unit}s": TransformKind(unit) for unit in ("year", "month", "day", "hour")
}
_WITH_WIDTH = frozenset({TransformKind.BUCKET, TransformKind.TRUNCATE})
_TIME_KINDS = frozenset({TransformKind.YEAR, TransformKind.MONTH, TransformKind.DAY, TransformKind.HOUR})
_PARTITION_HINT = (
    "Write a column, or identity(c), year(c), month(c), day(c), hour(c), bucket(16, c), truncate(4, c) or "
    "void(c), with commas between them."
)
_SORT_HINT = (
    "Write columns with commas between them, each with ASC or DESC and NULLS FIRST or NULLS LAST if wanted."
)
_FIELDS = {"sort order": "sort"}
"""Fields of a sink that errors call otherwise."""
_COLUMNS_HINT = (
    'Write columns with commas between them; a name with a space or a comma stands in "double quotes".'
)


def parse_partition(spec: str | Iterable[str | PartitionField]) -> tuple[PartitionField, ...]:
    """The partition fields that a text or a list of texts describes."""
    if isinstance(spec, str):
        return _check_partition(tuple(_partition_fields(spec)))
    fields: list[PartitionField] = []
    for item in spec:
        if isinstance(item, PartitionField):
            check_column(item.column, "partition column")
            fields.append(item)
        else:
            fields.extend(_partition_fields(_text(item, "partition")))
    return _check_partition(tuple(fields))


def parse_sort(order: str | Iterable[str | SortField]) -> tuple[SortField, ...]:
    """The sort fields that a text or a list of texts describes. Nulls go as Iceberg puts them by default:
    first where ascending, last where descending."""
    if isinstance(order, str):
        return _check_sort(tuple(_sort_fields(order)))
    fields: list[SortField] = []
    for item in order:
        if isinstance(item, SortField):
            check_column(item.column, "sort column")
            fields.append(item)
        else:
            fields.extend(_sort_fields(_text(item, "sort order")))
    return _check_sort(tuple(fields))


def parse_columns(columns: str | Iterable[str], what: str) -> tuple[str, ...]:
    """Column names out of `id, "my col"`, or out of a list, where each text is one name."""
    if not isinstance(columns, str):
        return tuple(check_column(_text(column, what), f"{what} column") for column in columns)
    reader = _Reader.over(columns, what, ConfigError, _COLUMNS_HINT)
    names = []
    while reader.more():
        names.append(reader.column())
        reader.comma_or_end()
    return tuple(names)


def format_partition(field: PartitionField) -> str:
    """Text that `parse_partition` reads back."""
    width = "" if field.transform.width is None else f"{field.transform.width}, "
    return f"{field.transform.kind.value}({width}{format_column(field.column)})"


def format_sort(field: SortField) -> str:
    """Text that `parse_sort` reads back."""
    direction = "desc" if field.descending else "asc"
    return f"{format_column(field.column)} {direction} nulls {'first' if field.nulls_first else 'last'}"


def format_column(name: str) -> str:
    """The name, in quotes where it needs them."""
    if _PLAIN.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    position: int  # from 1, as people count
    kind: str  # word, quoted, mark, end


@dataclass(slots=True)
class _Reader:
    """Tokens in their order, and errors that say where."""

    source: str
    what: str
    error: type[ConfigError]
    hint: str
    tokens: list[_Token]
    index: int = 0

    @classmethod
    def over(cls, source: str, what: str, error: type[ConfigError], hint: str) -> _Reader:
        reader = cls(source, what, error, hint, [])
        position = 0
        while position < len(source):
            if source[position].isspace():
                position += 1
                continue
            match = _TOKEN.match(source, position)
            if match is None:
                raise reader.fail(
                    _Token(source[position], position + 1, "mark"), "this quote is never closed"
                )
            reader.tokens.append(_Token(match[0], position + 1, match.lastgroup or ""))
            position = match.end()
        reader.tokens.append(_Token("", len(source) + 1, "end"))
        return reader

    def fail(self, token: _Token, reason: str, hint: str | None = None) -> ConfigError:
        return self.error(
            f"{self.what} {self.source!r}, position {token.position}: {reason}",
            hint=hint or self.hint,
            about=About(_FIELDS.get(self.what, self.what), self.source, token.position - 1),
        )

    def more(self) -> bool:
        return self.peek.kind != "end"

    @property
    def peek(self) -> _Token:
        return self.tokens[self.index]

    def next(self) -> _Token:
        token = self.tokens[self.index]
        self.index = min(self.index + 1, len(self.tokens) - 1)
        return token

    def took(self, mark: str) -> bool:
        """Whether the next token is this mark; if so, it is used up."""
        found = self.peek.kind == "mark" and self.peek.text == mark
        if found:
            self.next()
        return found

    def took_word(self, *words: str) -> str | None:
        """The next token, if it is one of these words in any case; then it is used up."""
        token = self.peek
        return self.next().text.lower() if token.kind == "word" and token.text.lower() in words else None

    def comma_or_end(self) -> None:
        comma = self.peek
        if self.took(","):
            if not self.more():
                raise self.fail(comma, "nothing follows the comma")
        elif self.more():
            raise self.fail(comma, f"a comma or the end was expected, not {comma.text!r}")

    def column(self) -> str:
        token = self.next()
        if token.kind not in ("word", "quoted"):
            raise self.fail(token, f"a column was expected, not {token.text or 'the end'!r}")
        return self.column_of(token)

    def column_of(self, token: _Token) -> str:
        if token.kind == "word":
            return check_column(token.text, f"{self.what} column")
        quote = token.text[0]
        return check_column(token.text[1:-1].replace(quote * 2, quote), f"{self.what} column")


def _partition_fields(text: str) -> Iterable[PartitionField]:
    reader = _Reader.over(text, "partition", BadPartition, _PARTITION_HINT)
    while reader.more():
        yield _partition_field(reader)
        reader.comma_or_end()


def _partition_field(reader: _Reader) -> PartitionField:
    head = reader.next()
    if head.kind not in ("word", "quoted"):
        raise reader.fail(head, f"a transform or a column was expected, not {head.text!r}")
    if not reader.took("("):
        return PartitionField(reader.column_of(head), Transform(TransformKind.IDENTITY))
    kind = _KINDS.get(head.text.lower())
    if kind is None:
        near = nearest(head.text.lower(), tuple(_KINDS))
        known = one_of([known.value for known in TransformKind])
        raise reader.fail(
            head,
            f"there is no transform {head.text!r}",
            f"Did you mean {near}? The transforms are {known}." if near else f"The transforms are {known}.",
        )
    width = _width(reader, kind) if kind in _WITH_WIDTH else None
    column = reader.column()
    end = reader.next()
    if (end.kind, end.text) != ("mark", ")"):
        raise reader.fail(
            end, f"{kind.value} ends with ')' after its column, not with {end.text or 'the end'!r}"
        )
    return PartitionField(column, Transform(kind, width))


def _width(reader: _Reader, kind: TransformKind) -> int:
    token = reader.next()
    if token.kind != "word" or not _NUMBER.fullmatch(token.text) or not reader.took(","):
        raise reader.fail(
            token, f"{kind.value} takes a number first, then the column: {kind.value}(16, column)"
        )
    # Python refuses to read numbers of thousands of digits, with an error of its own.
    width = int(token.text) if len(token.text) <= len(str(WIDTH_MAX)) else WIDTH_MAX + 1
    if not 1 <= width <= WIDTH_MAX:
        raise reader.fail(token, f"the number of {kind.value} is outside 1 … {WIDTH_MAX}")
    return width


def _sort_fields(text: str) -> Iterable[SortField]:
    reader = _Reader.over(text, "sort order", BadPartition, _SORT_HINT)
    while reader.more():
        column = reader.column()
        descending = reader.took_word("asc", "ascending", "desc", "descending") in ("desc", "descending")
        nulls_first = not descending
        if reader.took_word("nulls"):
            token = reader.peek
            where = reader.took_word("first", "last")
            if where is None:
                raise reader.fail(token, f"NULLS goes on with FIRST or LAST, not {token.text or 'the end'!r}")
            nulls_first = where == "first"
        yield SortField(column, descending, nulls_first)
        reader.comma_or_end()


def _check_partition(fields: tuple[PartitionField, ...]) -> tuple[PartitionField, ...]:
    """Iceberg names a field by column and transform, and takes one time transform a column."""
    seen: dict[tuple[str, object], PartitionField] = {}
    for field in fields:
        kind = field.transform.kind
        group = (field.column, "time" if kind in _TIME_KINDS else kind)
        if group in seen:
            raise BadPartition(
                f"the partition has both {format_partition(seen[group])} and {format_partition(field)}",
                hint="Keep one of the two: a column is cut once by time and once by each other transform.",
                about=About("partition", str(field)),
            )
        seen[group] = field
    return fields


def _check_sort(fields: tuple[SortField, ...]) -> tuple[SortField, ...]:
    repeated = first_repeated(field.column for field in fields)
    if repeated is not None:
        raise BadPartition(
            f"the sort order names {repeated!r} twice", hint="Name each column once.", about="sort"
        )
    return fields


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _text(item: object, what: str) -> str:
    if not isinstance(item, str):
        raise ConfigError(f"{what} holds a {type(item).__name__}", hint="Give text, or a list of texts.")
    return item
