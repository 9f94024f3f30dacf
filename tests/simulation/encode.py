"""An encoder of manifests and manifest lists that is not calve's: fastavro over PyIceberg's schemas."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import fastavro
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tests.simulation.reader import ADDED, DELETED, EXISTING, File


def encode_manifest(schema: Schema, spec: PartitionSpec, files: Sequence[File]) -> bytes:
    names = [field.name for field in spec.fields]
    buffer = io.BytesIO()
    fastavro.writer(
        buffer, _entry_schema(spec.partition_type(schema)), [_entry(file, names) for file in files]
    )
    return buffer.getvalue()


def encode_list(rows: Sequence[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, _list_schema(), rows)
    return buffer.getvalue()


def _entry(file: File, names: Sequence[str]) -> dict[str, Any]:
    return {
        "status": file.status,
        "snapshot_id": file.snapshot_id,
        "sequence_number": file.sequence,
        "file_sequence_number": file.file_sequence,
        "data_file": {
            "content": file.content,
            "file_path": file.path,
            "file_format": "PARQUET",
            "partition": dict(zip(names, file.partition, strict=True)),
            "record_count": file.records,
            "file_size_in_bytes": file.bytes,
            "equality_ids": list(file.equality_ids) or None,
        },
    }


def list_row(
    path: str, length: int, spec_id: int, content: int, snapshot_id: int, files: Sequence[File]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": spec_id,
        "content": content,
        "min_sequence_number": min((file.sequence for file in files if file.live), default=0),
        "added_snapshot_id": snapshot_id,
        "partitions": None,
        "key_metadata": None,
    }
    for state, status in (("existing", EXISTING), ("added", ADDED), ("deleted", DELETED)):
        of_state = [file for file in files if file.status == status]
        row[f"{state}_files_count"] = len(of_state)
        row[f"{state}_rows_count"] = sum(file.records for file in of_state)
    return row


@lru_cache(maxsize=1)
def _list_schema() -> Any:
    return fastavro.parse_schema(
        cast(Any, AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[2], "manifest_file"))
    )


@lru_cache(maxsize=64)
def _entry_schema(partition: StructType) -> Any:
    entry = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
    return fastavro.parse_schema(cast(Any, AvroSchemaConversion().iceberg_to_avro(entry, "manifest_entry")))
