"""Where files go: names that are unique per attempt, in folders that tell sink, batch and worker.

    <data location>/<sink>/<upper>/<worker>/ts_day=2026-11-15/id_bucket=3/data-00000-<uuid4>.parquet
    <data location>/<sink>/<upper>/<worker>/eqdel-00000-<uuid4>.parquet

Guarantee: no two attempts ever name the same file, so a straggler cannot overwrite what was committed;
and no value of a row can lead out of its folder (case 57): segments are percent-encoded, and long ones
are cut and carry a hash. Folders are for people and for sweeping orphans: readers take partition values
from manifests, so two values that share a folder do no harm. But for one: DuckDB 1.5 takes `id=3` in the
path of a delete file for its column `id`, with a type that it guesses. So delete files lie in no such folder.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from urllib.parse import quote, unquote_to_bytes

import pyarrow as pa

from calve.model.batch import Batch
from calve.model.errors import BadPartition
from calve.model.file import FileKind, PartitionValue
from calve.model.layout import TransformKind
from calve.writer.plan import WritePlan

SEGMENT_BYTES_MAX = 200
_HASH_DIGITS = 16
_PLAIN_MAX = 100
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
_LAST_ESCAPES = re.compile(r"(?:%[0-9A-F]{2})+\Z")
_PREFIX = {FileKind.DATA: "data", FileKind.EQUALITY_DELETE: "eqdel"}
_DAY = dt.date(1970, 1, 1)
_MIDNIGHT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def batch_folder(plan: WritePlan, batch: Batch) -> str:
    """The folder of all files that any worker writes for a batch."""
    return f"{plan.data_location}/{plain(plan.sink_id)}/{batch.upper}"


def new_file_path(
    plan: WritePlan,
    batch: Batch,
    worker: str,
    kind: FileKind,
    partition: tuple[PartitionValue, ...],
    number: int,
) -> str:
    """A path that was never given before. `number` counts a writer's files, for people."""
    folders = partition_folders(plan, partition) if kind is FileKind.DATA else ()
    folder = "/".join((batch_folder(plan, batch), plain(worker), *folders))
    return f"{folder}/{_PREFIX[kind]}-{number:05d}-{uuid.uuid4()}.parquet"


def partition_folders(plan: WritePlan, partition: tuple[PartitionValue, ...]) -> tuple[str, ...]:
    """One folder for each field of the spec; none for a file of an unpartitioned spec."""
    if not partition:
        return ()
    if not len(partition) == len(plan.partition) == len(plan.partition_names):
        raise BadPartition(
            f"{len(partition)} partition values for {len(plan.partition)} fields with "
            f"{len(plan.partition_names)} names",
            hint="A file has one value for each field of its spec, or none; this is a defect of the worker.",
        )
    return tuple(
        segment(f"{name}=", human(value, field.transform.kind, plan.schema.field(field.column).type))
        for name, field, value in zip(plan.partition_names, plan.partition, partition, strict=True)
    )


def plain(name: str) -> str:
    """A name as a folder of letters, digits, `-` and `_` alone: stores that look at a table's layout
    (SeaweedFS) take no others beside a partition's. What is lost but dots is told by a hash."""
    kept = _NOT_PLAIN.sub("-", name)[:_PLAIN_MAX]
    if kept == name.replace(".", "-"):
        return kept
    return f"{kept}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:_HASH_DIGITS]}"


def segment(*parts: str) -> str:
    """Text as one harmless piece of a path. The parts' `=` at the end stays; all else is encoded."""
    encoded = "".join(
        _encode(part[:-1]) + "=" if part.endswith("=") and parts[1:] else _encode(part) for part in parts
    )
    if encoded in ("", ".", ".."):
        encoded = encoded.replace(".", "%2E") or "%"
    if len(encoded) <= SEGMENT_BYTES_MAX:
        return encoded
    digest = hashlib.sha256(encoded.encode()).hexdigest()[:_HASH_DIGITS]
    kept = encoded[: SEGMENT_BYTES_MAX - _HASH_DIGITS - 1]
    half = kept.rfind("%", -2)  # an escape that the cut went through
    kept = kept if half < 0 else kept[:half]
    # DuckDB decodes folder names and refuses half a character: one that the cut went through goes as a whole.
    return f"{_LAST_ESCAPES.sub(_whole_characters, kept)}-{digest}"


def _whole_characters(escapes: re.Match[str]) -> str:
    return _encode(unquote_to_bytes(escapes[0]).decode("utf-8", "ignore"))


def _encode(text: str) -> str:
    # Lone surrogates are no UTF-8, yet a file system's names may have brought them in.
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def human(value: PartitionValue, kind: TransformKind, source: pa.DataType) -> str:
    """A partition value as Iceberg writes it for people."""
    if value is None:
        return "null"
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case int():
            return _calendar(value, kind, source)
        case _:
            return str(value)


def _calendar(value: int, kind: TransformKind, source: pa.DataType) -> str:
    try:
        return _formatter(kind, source)(value)
    except (OverflowError, ValueError):
        return str(value)  # beyond the years of Python's calendar: the plain number is as unique


def _formatter(kind: TransformKind, source: pa.DataType) -> Callable[[int], str]:
    match kind:
        case TransformKind.YEAR:
            return lambda years: f"{1970 + years:04d}"
        case TransformKind.MONTH:
            return lambda months: f"{1970 + months // 12:04d}-{months % 12 + 1:02d}"
        case TransformKind.DAY:
            return _date
        case TransformKind.HOUR:
            return lambda hours: f"{_date(hours // 24)}-{hours % 24:02d}"
    if kind is TransformKind.IDENTITY and pa.types.is_date32(source):
        return _date
    if kind is TransformKind.IDENTITY and pa.types.is_time64(source):
        return lambda micros: (_MIDNIGHT + dt.timedelta(microseconds=micros)).time().isoformat()
    if kind is TransformKind.IDENTITY and pa.types.is_timestamp(source):
        zone = dt.UTC if source.tz else None
        return lambda micros: (_MIDNIGHT + dt.timedelta(microseconds=micros)).replace(tzinfo=zone).isoformat()
    return str


def _date(days: int) -> str:
    return (_DAY + dt.timedelta(days=days)).isoformat()
