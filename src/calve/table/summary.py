"""What a snapshot says of itself: Iceberg's counts, and the totals that follow from its parent's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.table.snapshots import Operation, Summary

from calve.model.file import FileClosed, FileKind

_TOTALS = {
    "total-data-files": "added-data-files",
    "total-delete-files": "added-delete-files",
    "total-records": "added-records",
    "total-files-size": "added-files-size",
    "total-position-deletes": "added-position-deletes",
    "total-equality-deletes": "added-equality-deletes",
}
"""Each total, and the count that adds to it. This sink removes no file."""


def operation_of(files: Iterable[FileClosed]) -> Operation:
    """Iceberg's word for what a batch's files do to a table. No file at all (a claim, a heartbeat) is an
    append of nothing."""
    kinds = {file.kind for file in files}
    if FileKind.EQUALITY_DELETE not in kinds:
        return Operation.APPEND
    return Operation.OVERWRITE if FileKind.DATA in kinds else Operation.DELETE


def summarize(
    files: tuple[FileClosed, ...], parent: Mapping[str, str] | None, ours: Mapping[str, str]
) -> Summary:
    """The summary of a snapshot that adds `files` to a parent with the given summary."""
    counts = _added(files)
    # A total that the parent does not say is not known, and none is made up.
    before = dict.fromkeys(_TOTALS, "0") if parent is None else parent
    totals = {
        total: str(int(before[total]) + counts.get(added, 0))
        for total, added in _TOTALS.items()
        if total in before
    }
    texts = {name: str(count) for name, count in counts.items() if count}
    return Summary(operation=operation_of(files), **texts, **totals, **ours)


def _added(files: tuple[FileClosed, ...]) -> dict[str, int]:
    data = [file for file in files if file.kind is FileKind.DATA]
    deletes = [file for file in files if file.kind is FileKind.EQUALITY_DELETE]
    return {
        "added-data-files": len(data),
        "added-records": sum(file.record_count for file in data),
        "added-delete-files": len(deletes),
        "added-equality-delete-files": len(deletes),
        "added-equality-deletes": sum(file.record_count for file in deletes),
        "added-files-size": sum(file.file_bytes for file in files),
        "changed-partition-count": len({(file.spec_id, file.partition) for file in files}),
    }
