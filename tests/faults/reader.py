"""The reader: rows of every snapshot of a table, each file read once.

    snapshot ──manifests──▶ entries ──▶ rows of data files that no later equality delete reaches

As `tests/support/truth.py`, by the letter of the specification and without a line of the sink's; but that
one reads every file again for every snapshot, and here every snapshot of a long history is compared. The
tables of these tests have no partitions: an equality delete reaches every older row.
"""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry
from pyiceberg.table.snapshots import Snapshot

from tests.faults.source import Row


class Reader:
    """Reads tables with the columns id and v."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._manifests: dict[tuple[str, int], list[ManifestEntry]] = {}
        self._rows: dict[str, list[Row]] = {}
        self._keys: dict[str, list[int]] = {}
        self._found: set[str] = set()

    def rows(self, snapshot: Snapshot) -> Counter[Row]:
        data, deletes = self._entries(snapshot)
        deleted: dict[int, int] = {}
        for entry in deletes:
            for key in self._deleted(entry):
                deleted[key] = max(deleted.get(key, 0), entry.sequence_number or 0)
        return Counter(
            row
            for entry in data
            for row in self._data(entry)
            if deleted.get(row[0], 0) <= (entry.sequence_number or 0)
        )

    def missing(self, snapshot: Snapshot) -> list[str]:
        """What a snapshot needs and is not there: its list, its manifests or their files."""
        gone = self._gone([snapshot.manifest_list])
        gone = gone or self._gone([one.manifest_path for one in snapshot.manifests(self._io)])
        if gone:
            return gone
        entries = [entry for part in self._entries(snapshot) for entry in part]
        return self._gone([entry.data_file.file_path for entry in entries])

    def _gone(self, paths: list[str]) -> list[str]:
        unseen = [path for path in paths if path not in self._found]
        gone = [path for path in unseen if not self._io.new_input(path).exists()]
        self._found.update(set(unseen) - set(gone))
        return gone

    def _entries(self, snapshot: Snapshot) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
        data: list[ManifestEntry] = []
        deletes: list[ManifestEntry] = []
        for manifest in snapshot.manifests(self._io):
            # Entries inherit what the list says of their manifest.
            path = (manifest.manifest_path, manifest.sequence_number)
            if path not in self._manifests:
                self._manifests[path] = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            is_data = manifest.content == ManifestContent.DATA
            (data if is_data else deletes).extend(self._manifests[path])
        return data, deletes

    def _data(self, entry: ManifestEntry) -> list[Row]:
        file = entry.data_file
        assert file.content == DataFileContent.DATA, file.file_path
        if file.file_path not in self._rows:
            columns = self._read(file.file_path)
            self._rows[file.file_path] = list(zip(columns["id"], columns["v"], strict=True))
            assert len(self._rows[file.file_path]) == file.record_count, file.file_path
        return self._rows[file.file_path]

    def _deleted(self, entry: ManifestEntry) -> list[int]:
        file = entry.data_file
        assert file.content == DataFileContent.EQUALITY_DELETES, file.file_path
        if file.file_path not in self._keys:
            self._keys[file.file_path] = self._read(file.file_path)["id"]
        return self._keys[file.file_path]

    def _read(self, path: str) -> dict[str, list]:
        with self._io.new_input(path).open() as stream:
            return pq.read_table(stream).to_pydict()
