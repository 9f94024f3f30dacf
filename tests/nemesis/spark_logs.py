"""Spark's own logs in a checkpoint, read as plain files: which files of the source each micro-batch had."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote


def micro_batches(checkpoint: Path) -> list[list[str]]:
    """The names of the files of each micro-batch that Spark has planned."""
    names = _files_by_entry(checkpoint / "sources" / "0")
    planned = []
    before = -1
    for upto in _entries_by_micro_batch(checkpoint / "offsets"):
        planned.append(sorted(name for name, entry in names.items() if before < entry <= upto))
        before = upto
    return planned


def _entries_by_micro_batch(folder: Path) -> list[int]:
    """For each micro-batch, the last entry of the source's log that it has."""
    if not folder.exists():
        return []
    found = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    if found != list(range(len(found))):
        raise AssertionError(f"Spark's offset log has a gap: {found}")
    entries = []
    for number in found:
        _, _, source = (folder / str(number)).read_text().splitlines()
        entries.append(int(json.loads(source)["logOffset"]))
    return entries


def _files_by_entry(folder: Path) -> dict[str, int]:
    """The files that Spark's file source took, each with the entry of its log."""
    names: dict[str, int] = {}
    if not folder.exists():
        return names
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            names[unquote(entry["path"]).rpartition("/")[2]] = int(entry["batchId"])
    return names
