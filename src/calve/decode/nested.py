"""What lies in lists and maps, laid out flat.

    [[1, 2], null, [], [3]] ─▶ elements ─▶ [1, 2, 3]

Why not Arrow's `list_flatten` alone: where no list has an element it builds an array from nothing, and has
no builder for a type with an extension type below it, such as a struct with a uuid (pyarrow 26).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def elements(lists: pa.Array) -> pa.Array:
    """The elements of all lists that are not null, in their order. Slices and views are undone."""
    if not pc.sum(pc.list_value_length(lists)).as_py():
        return pa.nulls(0, lists.type.value_type)
    return pc.list_flatten(lists)


def as_lists(maps: pa.Array) -> pa.Array:
    """Maps as lists of structs of a key and a value."""
    return maps.cast(pa.list_(pa.struct([maps.type.key_field, maps.type.item_field])))
