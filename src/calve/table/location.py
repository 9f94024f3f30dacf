"""Locations: local folders as `file:///…`, everything else as it was given.

A path without a scheme means the local disk to one reader and the cluster's default file system to the
next. So a table of ours has a scheme in every location. Paths are taken literally, as `store` takes them:
nothing is percent-encoded, because Iceberg's readers decode nothing.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

_METADATA_FILE = re.compile(r"(.+?)(?:/metadata)?/[^/]+\.metadata\.json(?:\.gz)?", re.DOTALL)


def is_local(location: str) -> bool:
    """Whether a location is a folder of this machine: a plain path, or `file:`."""
    return urlsplit(location).scheme in ("", "file")


def as_uri(location: str) -> str:
    """The location with its scheme, without a trailing slash. A relative path is made absolute."""
    if not is_local(location):
        return location.rstrip("/")
    path = "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location
    return f"file://{os.path.abspath(path)}"


def table_root(location: str) -> str:
    """A table's own folder. S3 Tables has handed out the path of the metadata file as the location: files of
    ours would lie below a file."""
    match = _METADATA_FILE.fullmatch(location)
    return location if match is None else match[1]
