"""Footer: Parquet files of CockroachDB, made readable.

CockroachDB writes a DECIMAL as text, in a column of byte arrays that it declares to be Parquet's decimal,
with a precision of 2^31 - 1 where none was given. A reader that believes that refuses the file, or takes the
digits of a text for a number. So the declaration is taken out of the footer, and the column is what it holds:
bytes.

    data pages │ FileMetaData(version, schema: [SchemaElement…], …) │ length │ PAR1    (Thrift, compact)
                                       └── annotations of byte arrays that say decimal are left out

Only the schema is read and written again; all that follows is copied. Offsets in the footer count from the
start of the file, so that a footer of another length moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

MAGIC = b"PAR1"
_BYTE_ARRAY, _DECIMAL = 6, 5
_TYPE, _NAME, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 4, 6, 7, 8, 10
_I8, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 3, 7, 8, 9, 10, 11, 12


class Damaged(ValueError):
    """A footer that is none."""


def without_decimals(content: bytes) -> bytes:
    """A file whose columns of byte arrays are no decimals."""
    size = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != MAGIC or content[:4] != MAGIC or size + 12 > len(content):
        raise Damaged("it does not begin and end as a Parquet file does")
    start = len(content) - 8 - size
    try:
        footer = _edited(content[start:-8])
    except IndexError:
        raise Damaged("its footer is cut off") from None
    return content[:start] + footer + len(footer).to_bytes(4, "little") + MAGIC


def _edited(footer: bytes) -> bytes:
    reader = _Reader(footer)
    version = reader.field()
    if version is None or version[0] != 1:
        raise Damaged("its footer does not begin as one does")
    reader.skip(version[1])
    if reader.field(1) != (2, _LIST):
        raise Damaged("its footer has no schema")
    count, kind = reader.list_head()
    if kind != _STRUCT:
        raise Damaged("its footer has no schema")
    elements_at = reader.at
    elements = [_element(reader) for _ in range(count)]
    return footer[:elements_at] + b"".join(elements) + footer[reader.at :]


def _element(reader: _Reader) -> bytes:
    """A SchemaElement, without what says decimal of a byte array."""
    fields: list[tuple[int, int, bytes]] = []
    number = 0
    while (head := reader.field(number)) is not None:
        number, kind = head
        start = reader.at
        reader.skip(kind)
        fields.append((number, kind, reader.data[start : reader.at]))
    values = {number: value for number, _, value in fields}
    if values.get(_TYPE) == _zigzag(_BYTE_ARRAY) and _says_decimal(values):
        fields = [one for one in fields if one[0] not in (_CONVERTED, _SCALE, _PRECISION, _LOGICAL)]
    found, previous = bytearray(), 0
    for number, kind, value in fields:
        if not 0 < number - previous < 16:
            raise Damaged("its schema has fields that nobody knows")
        found += bytes([(number - previous) << 4 | kind]) + value
        previous = number
    return bytes(found) + b"\0"


def _says_decimal(values: dict[int, bytes]) -> bool:
    logical = values.get(_LOGICAL, b"\0")
    # A union: one field, whose number says which type.
    return values.get(_CONVERTED) == _zigzag(_DECIMAL) or logical[0] == _DECIMAL << 4 | _STRUCT


def _zigzag(number: int) -> bytes:
    return bytes([number << 1])


@dataclass
class _Reader:
    """Thrift's compact protocol, as far as it is needed to step over values."""

    data: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def field(self, previous: int = 0) -> tuple[int, int] | None:
        """The number and the type of the next field; `None` behind the last."""
        head = self.byte()
        if head == 0:
            return None
        if head >> 4:
            return previous + (head >> 4), head & 15
        number = self.varint()
        return (number >> 1) ^ -(number & 1), head & 15

    def list_head(self) -> tuple[int, int]:
        head = self.byte()
        return (self.varint() if head >> 4 == 15 else head >> 4), head & 15

    def skip(self, kind: int) -> None:
        if kind == _I8:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            count, inner = self.list_head()
            for _ in range(count):
                self.skip(_I8 if inner in (1, 2) else inner)
        elif kind == _MAP:
            if count := self.varint():
                kinds = self.byte()
                for _ in range(count):
                    self.skip(kinds >> 4)
                    self.skip(kinds & 15)
        elif kind == _STRUCT:
            number = 0
            while (head := self.field(number)) is not None:
                number = head[0]
                self.skip(head[1])
        elif kind > 2:  # numbers; true and false are in the type itself
            self.varint()
