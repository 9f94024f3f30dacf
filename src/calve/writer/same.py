"""Whether rows say the same, column by column, for every type that a table can have.

Arrow compares flat columns only, and takes NaN for different from itself. Here null equals null, NaN
equals NaN, and structs, lists and maps are compared by what is in them, without a loop over rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.nested import as_lists, elements


def rows_differ(left: pa.Table, right: pa.Table) -> pa.Array:
    """For each pair of rows of two tables of one schema and length, whether they differ anywhere."""
    result = _none(left.num_rows)
    for one, other in zip(left.columns, right.columns, strict=True):
        result = pc.or_(result, _differ(one.combine_chunks(), other.combine_chunks()))
    return result


def _differ(left: pa.Array, right: pa.Array) -> pa.Array:
    kind = left.type
    if isinstance(kind, pa.BaseExtensionType):
        left, right, kind = left.storage, right.storage, kind.storage_type
    if pa.types.is_struct(kind):
        inside = _none(len(left))
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            inside = pc.or_(inside, _differ(one, other))
    elif pa.types.is_map(kind):
        return _differ(as_lists(left), as_lists(right))
    elif pa.types.is_list(kind):
        inside = _differ_in_lists(left, right)
    else:
        inside = _differ_flat(left, right)
    one_is_null = pc.xor(left.is_null(), right.is_null())
    return pc.or_(one_is_null, pc.fill_null(inside, False))


def _differ_flat(left: pa.Array, right: pa.Array) -> pa.Array:
    differ = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.and_not(differ, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return differ


def _differ_in_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    lengths = pc.not_equal(_lengths(left), _lengths(right))
    # Only lists of equal length are compared element by element: then both flatten in step.
    step = pc.invert(lengths)
    one, other = left.filter(step), right.filter(step)
    inside = _differ(elements(one), elements(other))
    owners = pc.list_parent_indices(one).filter(inside)
    row_numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(one)), start=-1)
    unequal = pc.is_in(row_numbers, value_set=owners.cast(pa.int64()))
    return pc.replace_with_mask(lengths, step, unequal)


def _lengths(lists: pa.Array) -> pa.Array:
    return pc.list_value_length(lists).fill_null(-1)


def _none(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(False), count)
