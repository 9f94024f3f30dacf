"""Rows and changes for the benchmarks of upsert mode, made of Arrow columns: nothing is kept, nothing random.

The key of change n is n × a large prime, modulo the number of keys: every key comes up equally often, and
neighbours in time are far apart in key, as they are in a table that many people use.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_PRIME = 7_368_787


def rows(first_key: int, count: int) -> pa.Table:
    """Rows with keys that follow each other."""
    return _with_values(_numbers(first_key, count), version=0)


def changes(first: int, count: int, keys: int, version: int = 1, first_key: int = 0) -> pa.Table:
    """Changes number `first` and on, over so many keys."""
    products = pc.multiply(_numbers(first, count), _PRIME)
    wrapped = pc.subtract(products, pc.multiply(pc.divide(products, keys), keys))
    return _with_values(pc.add(wrapped, first_key), version)


def _numbers(first: int, count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def _with_values(ids: pa.Array, version: int) -> pa.Table:
    names = pc.binary_join_element_wise("customer", ids.cast(pa.string()), str(version), "-")
    amounts = pc.divide(pc.add(ids, version).cast(pa.float64()), 7.0)
    times = pc.multiply(ids, 1_000).cast(pa.timestamp("us"))
    return pa.table({"id": ids, "name": names, "amount": amounts, "at": times})
