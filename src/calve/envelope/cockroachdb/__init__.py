"""CockroachDB's changefeeds as messages.

decode.py   messages ─▶ changes and marks; said.py: what one says; kinds.py: the envelopes by their names
learn.py    what messages show of their table
files.py    rows that were decoded when files were read
"""

from calve.envelope.cockroachdb.decode import CockroachDB, hlc
from calve.envelope.cockroachdb.files import CockroachFiles, file_messages
from calve.envelope.cockroachdb.kinds import Kind

__all__ = ["CockroachDB", "CockroachFiles", "Kind", "file_messages", "hlc"]
