"""Files: how many a snapshot has, and which of its deletes wait for conversion.

A summary counts delete files together and deletes by kind. Only where there are both kinds, or where it does
not say, manifests are read: those of deletes alone, which name the columns of a key and no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from calve.runtime.inspect.result import TableFiles
from calve.table.base import summary_texts


def table_files(table: Table) -> TableFiles:
    """The files of main."""
    main = table.metadata.current_snapshot()
    if main is None:
        return TableFiles(0, 0)
    texts = summary_texts(main)
    by_key, by_place = _delete_files(main, texts, table.io)
    return TableFiles(_number(texts, "total-records"), _number(texts, "total-data-files"), by_key, by_place)


def _delete_files(main: Snapshot, texts: Mapping[str, str], io: FileIO) -> tuple[int, int]:
    total = _number(texts, "total-delete-files")
    keys, places = (_number(texts, f"total-{kind}-deletes") for kind in ("equality", "position"))
    if total == 0:
        return 0, 0
    if total is not None and places == 0:
        return total, 0
    if total is not None and keys == 0:
        return 0, total
    return _counted(main, io)


def _counted(main: Snapshot, io: FileIO) -> tuple[int, int]:
    counts = {DataFileContent.EQUALITY_DELETES: 0, DataFileContent.POSITION_DELETES: 0}
    for manifest in main.manifests(io):
        if manifest.content is ManifestContent.DELETES:
            for entry in manifest.fetch_manifest_entry(io):
                counts[entry.data_file.content] += 1
    return counts[DataFileContent.EQUALITY_DELETES], counts[DataFileContent.POSITION_DELETES]


def _number(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name, "")
    return int(text) if text.isdecimal() else None
