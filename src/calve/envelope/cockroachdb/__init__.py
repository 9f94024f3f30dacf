"""CockroachDB's changefeeds as messages.

decode.py   messages ─▶ changes and marks
learn.py    what messages show of their table
files.py    rows that were decoded when files were read
"""

from calve.envelope.cockroachdb.decode import CockroachDB, Kind, hlc
from calve.envelope.cockroachdb.files import CockroachFiles, file_messages

__all__ = ["CockroachDB", "CockroachFiles", "Kind", "file_messages", "hlc"]
