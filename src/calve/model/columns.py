"""Columns that an envelope adds to the rows of a source, beside the data. None of them reaches a table.

message ─▶ envelope ─▶ data columns + OP, TIME, ORDER, POSITION    a change
                    ├▶ MARK, PARTITION                             a mark: no change before it is to come
                    └▶ ERROR, PLACE, RAW                           a message that nothing can be made of (P8)
"""

from __future__ import annotations

RESERVED = "__calve_"
"""How names of ours begin: a source's own column may not."""

OP = RESERVED + "change"
"""What happened to the row: insert, upsert, delete; null in marks and bad messages."""
TIME = RESERVED + "at"
"""When, as an integer; left out where the source has no time of its own."""
ORDER = RESERVED + "order"
"""Decides between changes of a key at the same time; left out where the time decides."""
POSITION = RESERVED + "position"
"""Where in the delivery of its partition a change stands, as text that sorts so: what is not beyond the last
one is a replay. Left out where times tell replays."""
CLOCK = RESERVED + "clock"
"""When the source made a change, by its own clock, in milliseconds. Beside a position: one that was passed
while the clock goes on is another server's."""
SNAPSHOT_AT = 32
"""Where in a position a 0 says that the change is a row of a snapshot."""
UNKNOWN = "?"
"""How a position ends that changes share which nothing tells apart: as long as it is the last one, a change
that has it may be new."""
MARK = RESERVED + "mark"
"""No change before this time is to come; null in changes."""
PARTITION = RESERVED + "partition"
"""Which partition of the source speaks."""
PLACE = RESERVED + "place"
"""Where a bad message stands: topic, partition and offset, or file and line."""
ERROR = RESERVED + "error"
"""What is wrong with a message; null where nothing is."""
RAW = RESERVED + "raw"
"""A bad message, as it came."""

TYPES = RESERVED + "types"
"""A field beside a row that comes as text: the types of its columns, where a file knows them."""

UNFIT = "a value does not fit its column, or the message is no JSON object"
"""The ERROR of a message that could not be parsed. Which value it is, is found where it is told of
(writer/explain.py): to look for it in Spark makes the plan of a micro-batch several times as long."""
