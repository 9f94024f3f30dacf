"""Debezium: change events of PostgreSQL and MySQL, in JSON and Avro.

envelope.py      messages ──▶ changes
version.py       messages of one schema        learn.py      columns and key from messages
schema.py        fields and their types        declared.py   … where messages have no schema
values.py        values ──▶ columns            decimals.py, times.py
position.py      order and replays             toast.py, keep.py   what the source did not send
"""

from calve.envelope.debezium.declared import Declared
from calve.envelope.debezium.envelope import Debezium
from calve.envelope.debezium.registered import RegisteredDebezium
from calve.envelope.debezium.registry import Registry

__all__ = ["Debezium", "Declared", "RegisteredDebezium", "Registry"]
