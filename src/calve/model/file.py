"""FileClosed: everything a coordinator must know of one finished file, as a versioned JSON message.

    worker ──FileClosed──▶ gather ──▶ manifests

Guarantee (P7): a manifest entry is built from this message alone; nobody opens the file again to
commit it. The message carries its own sha256, so a message that was cut or mixed up on its way, or in
the buffer beside a checkpoint, is found before it is committed. JSON with a version, never pickle:
what is read back may be old, or not ours.

Partition values are Iceberg's physical ones: a date is its days, a timestamp its microseconds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cached_property
from typing import Any

from calve.model.batch import Batch
from calve.model.encoding import bounds, counts
from calve.model.errors import BadMessage, CalveError

MESSAGE_VERSION = 1

PartitionValue = bool | int | float | str | bytes | Decimal | uuid.UUID | None


class FileKind(Enum):
    """What a file holds."""

    DATA = "data"
    EQUALITY_DELETE = "equality-delete"


@dataclass(frozen=True)
class ColumnMetrics:
    """Counts and bounds by field id, as Iceberg's manifests hold them. Bounds are in its binary form."""

    column_bytes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)

    @cached_property
    def encoded(self) -> bytes:
        """All of it in the form of a manifest entry, in the order of its fields. Kept once it was made."""
        return b"".join(
            (
                counts(self.column_bytes),
                counts(self.value_counts),
                counts(self.null_counts),
                counts(self.nan_counts),
                bounds(self.lower_bounds),
                bounds(self.upper_bounds),
            )
        )


@dataclass(frozen=True, slots=True)
class FileClosed:
    """What a worker reports of one file."""

    batch: Batch
    worker: str
    path: str
    kind: FileKind
    schema_id: int
    spec_id: int
    partition: tuple[PartitionValue, ...]
    record_count: int
    file_bytes: int
    metrics: ColumnMetrics = field(default_factory=ColumnMetrics)
    split_offsets: tuple[int, ...] = ()
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None

    def __post_init__(self) -> None:
        if self.record_count <= 0 or self.file_bytes <= 0:
            raise BadMessage(
                f"{self.path} is reported with {self.record_count} rows in {self.file_bytes} bytes",
                hint="An empty file is not reported; this is a defect of the worker.",
            )
        if bool(self.equality_ids) != (self.kind is FileKind.EQUALITY_DELETE):
            raise BadMessage(
                f"{self.path} is {self.kind.value} with equality ids {list(self.equality_ids)}",
                hint="Equality deletes, and only they, name the columns that they compare.",
            )

    @property
    def digest(self) -> str:
        """sha256 over the whole message, in its canonical form."""
        return hashlib.sha256(_canonical(self._body())).hexdigest()

    def to_json(self) -> str:
        body = self._body()
        body["sha256"] = hashlib.sha256(_canonical(body)).hexdigest()
        return _canonical(body).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> FileClosed:
        """The message, if its version is known and its hash is right."""
        body = _parse(text)
        if body.get("version") != MESSAGE_VERSION:
            raise BadMessage(
                f"a FileClosed of version {body.get('version')!r} cannot be read here",
                hint=f"This release reads version {MESSAGE_VERSION}. "
                "Finish the batch with the release that wrote it.",
            )
        claimed = body.pop("sha256", None)
        actual = hashlib.sha256(_canonical(body)).hexdigest()
        if claimed != actual:
            raise BadMessage(
                f"the FileClosed of {body.get('path')!r} has sha256 {actual}, not {claimed}",
                hint="The message was changed or cut after the worker sent it. Write the batch again.",
            )
        try:
            return cls._from_body(body)
        except CalveError:
            raise
        except (KeyError, TypeError, ValueError, InvalidOperation) as error:
            raise BadMessage(
                f"a FileClosed lacks a field or has one of a wrong type: {error!r}",
                hint="Write the batch again.",
            ) from error

    def _body(self) -> dict[str, Any]:
        return {
            "version": MESSAGE_VERSION,
            # Times have up to 38 digits: text, because many JSON readers keep only 53 bits.
            "lower": str(self.batch.lower),
            "upper": str(self.batch.upper),
            "worker": self.worker,
            "path": self.path,
            "kind": self.kind.value,
            "schema_id": self.schema_id,
            "spec_id": self.spec_id,
            "partition": [_encode_value(value) for value in self.partition],
            "record_count": self.record_count,
            "file_bytes": self.file_bytes,
            "metrics": {
                metric.name: _encode_metric(getattr(self.metrics, metric.name))
                for metric in fields(ColumnMetrics)
            },
            "split_offsets": list(self.split_offsets),
            "equality_ids": list(self.equality_ids),
            "sort_order_id": self.sort_order_id,
        }

    @classmethod
    def _from_body(cls, body: dict[str, Any]) -> FileClosed:
        metrics = body["metrics"]
        return cls(
            batch=Batch(int(body["lower"]), int(body["upper"])),
            worker=str(body["worker"]),
            path=str(body["path"]),
            kind=FileKind(body["kind"]),
            schema_id=int(body["schema_id"]),
            spec_id=int(body["spec_id"]),
            partition=tuple(_decode_value(value) for value in body["partition"]),
            record_count=int(body["record_count"]),
            file_bytes=int(body["file_bytes"]),
            metrics=ColumnMetrics(
                **{metric.name: _decode_metric(metrics[metric.name]) for metric in fields(ColumnMetrics)}
            ),
            split_offsets=tuple(int(offset) for offset in body["split_offsets"]),
            equality_ids=tuple(int(field_id) for field_id in body["equality_ids"]),
            sort_order_id=None if body["sort_order_id"] is None else int(body["sort_order_id"]),
        )


def _parse(text: str | bytes) -> dict[str, Any]:
    try:
        body = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise BadMessage(
            f"a FileClosed is not JSON: {error}", hint="The message was cut. Write the batch again."
        ) from None
    if not isinstance(body, dict):
        raise BadMessage("a FileClosed is not a JSON object", hint="Write the batch again.")
    return body


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number of JSON")
    return number


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def _encode_value(value: PartitionValue) -> Any:
    """Plain JSON where JSON has the type, a one-key object that names the type where it has not."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -(2**53) < value < 2**53 else {"int": str(value)}
        case float():
            return {"float": value.hex()} if math.isfinite(value) else {"float": repr(value)}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case uuid.UUID():
            return {"uuid": str(value)}


def _decode_value(value: Any) -> PartitionValue:
    if not isinstance(value, dict):
        if value is None or isinstance(value, bool | int | str):
            return value
        raise ValueError(f"a partition value cannot be {type(value).__name__}")
    ((kind, text),) = value.items()
    match kind:
        case "int":
            return int(text)
        case "float":
            return float.fromhex(text)
        case "bytes":
            return base64.b64decode(text, validate=True)
        case "decimal":
            return Decimal(text)
        case "uuid":
            return uuid.UUID(text)
    raise ValueError(f"unknown kind of partition value: {kind}")


def _encode_metric(metric: Mapping[int, int] | Mapping[int, bytes]) -> dict[str, Any]:
    return {
        str(field_id): base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for field_id, value in sorted(metric.items())
    }


def _decode_metric(metric: dict[str, Any]) -> dict[int, Any]:
    return {
        int(field_id): base64.b64decode(value, validate=True) if isinstance(value, str) else int(value)
        for field_id, value in metric.items()
    }
