"""CockroachDB's changefeeds as messages.

decode.py   messages ─▶ changes and marks
learn.py    what messages show of their table
"""

from calve.envelope.cockroachdb.decode import CockroachDB, Kind, hlc

__all__ = ["CockroachDB", "Kind", "hlc"]
