"""Labels: what snapshots of a source say beside the sink's own keys, for people who know the source.

CockroachDB's: which changefeed, up to which resolved time as CockroachDB prints it, and how many files. The
batch id follows from job, table and resolved time alone, so that whoever knows these can look it up.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calve.config.sink import SinkConfig
from calve.envelope.base import Envelope
from calve.model.batch import Batch
from calve.model.file import FileClosed, FileKind
from calve.runtime.spark.work import Labels, no_labels

_LOGICAL = 10**10
_LOGICAL_MAX = 2**31 - 1
"""The logical part of an HLC is an int32 at the source."""


@dataclass(frozen=True, slots=True)
class _CockroachDB:
    job_id: str
    table: str

    def __call__(self, batch: Batch, files: Sequence[FileClosed]) -> Mapping[str, str]:
        resolved = hlc_text(batch.upper - 1)
        data = sum(file.kind is FileKind.DATA for file in files)
        return {
            "crdb.batch_id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.job_id}:{self.table}:{resolved}")),
            "crdb.job_id": self.job_id,
            "crdb.resolved_hlc": resolved,
            "crdb.data_file_count": str(data),
            "crdb.delete_file_count": str(len(files) - data),
        }


def labels_of(envelope: Envelope, sink: SinkConfig, job_id: str | None) -> Labels:
    """What snapshots of a table say of its source."""
    if envelope.meaning == "hlc":
        return _CockroachDB(job_id or sink.sink_id, sink.table_name)
    return no_labels


def hlc_text(time: int) -> str:
    """A time as CockroachDB prints it. A bound between two HLCs is the greatest one below it."""
    wall, logical = divmod(time, _LOGICAL)
    return f"{wall}.{min(logical, _LOGICAL_MAX):010d}"
