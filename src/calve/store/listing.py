"""Listing: the names below a folder, in lexical order, from behind a name on.

    list_after("s3://bucket/feed", "2026-11-16/…") ──pages, as they are asked for──▶ paths below the folder

What it costs depends on what follows the name, not on what stands before it: S3 and GCS begin behind a name
by themselves; on a disk and on ADLS, folders that end before it are not looked into. Names come in the order
of their UTF-8 bytes; a store that answers in another order is refused.

A listing of several pages is not a moment: what is written meanwhile may be in it, or not. A sink never lists
(P7): this is for sources.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from calve.model.errors import StoreError
from calve.store import check_location, local_path, store_for
from calve.store.access import NO_ACCESS, Access

if TYPE_CHECKING:
    from calve.store.objects import ObjectStore

_PAGE = 1000

Entries = Callable[[str], list[str]]
"""What stands in a folder (`""`, `"a/"`, `"a/b/"`), names only; folders end with a slash."""


def list_after(folder: str, after: str = "", access: Access = NO_ACCESS) -> Iterator[str]:
    """Paths below a folder, relative to it, that sort behind `after`."""
    module = check_location(folder)
    if module is None:
        paths = _walk(_on_disk(folder), after)
    else:
        store = cast("ObjectStore", store_for(folder, access))
        by_folder = module == "adls"  # it cannot begin behind a name
        paths = _walk(store.entries(folder), after) if by_folder else store.list_after(folder, after, _PAGE)
    return _in_order(paths, folder)


def _in_order(paths: Iterator[str], folder: str) -> Iterator[str]:
    previous = ""
    for path in paths:
        if path <= previous:
            raise StoreError(
                f"{folder} lists {path} behind {previous}",
                hint="This store does not list names in lexical order (S3 directory buckets do not), and "
                "what is new cannot be told without it. Use a store that does.",
            )
        previous = path
        yield path


def _walk(entries: Entries, after: str, folder: str = "") -> Iterator[str]:
    """Depth first. A folder's name is compared with its slash, so that paths come in their own order."""
    for name in sorted(entries(folder)):
        path = folder + name
        if name.endswith("/"):
            if path >= after or after.startswith(path):
                yield from _walk(entries, after, path)
        elif path > after:
            yield path


def _on_disk(root: str) -> Entries:
    base = local_path(root)

    def entries(folder: str) -> list[str]:
        try:
            with os.scandir(base / folder) as found:
                return [f"{entry.name}/" if entry.is_dir() else entry.name for entry in found]
        except FileNotFoundError:
            return []  # nothing was written yet, or a folder was removed meanwhile
        except OSError as error:
            raise StoreError(
                f"cannot list {base / folder}: {os.strerror(error.errno or 0)}",
                hint="May this process read the folder?",
            ) from error

    return entries
