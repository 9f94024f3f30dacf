"""One column to the table's type, without losing a digit, or not at all.

    array ─▶ decode (dictionary, run-end, extension) ─▶ by kind: struct · list · map · leaf ─▶ null check

Guarantee: a value that comes out equals the one that went in. Which pair of types may meet is decided
from the types alone (`SchemaMismatch`); whether each value fits is decided by Arrow's checked casts
(`Misfit`, whose row the caller looks for). A column whose type is right already is handed on, not copied.

Nulls are checked on every level: Arrow does not enforce `nullable=False`, and Parquet would write
garbage levels for a null in a required field.

Not here: which column goes where, and the place in an error (conform.py).
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from calve.decode.nested import as_lists, elements
from calve.model.errors import SchemaMismatch

_Types = pa.types
_NULL_HINT = "Fill it at the source, or turn schema evolution on: then the column becomes optional."


class Misfit(ValueError):
    """Some value of a column does not fit its type. It says which field and why, not yet which row."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.hint = hint


def cast_array(array: pa.Array, field: pa.Field, path: str, *, nulls_above: int = 0) -> pa.Array:
    """The array as the field's type. `nulls_above` nulls stand here because a struct above is null."""
    array = decoded(array)
    target = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if _Types.is_null(array.type):
        result = pa.nulls(len(array), target)
    elif _Types.is_struct(target):
        result = _cast_struct(array, target, path)
    elif _Types.is_map(target):
        result = _cast_map(array, target, path)
    elif _Types.is_list(target):
        result = _cast_list(array, target, path)
    else:
        result = _cast_leaf(array, target, path)
    if not field.nullable and result.null_count > nulls_above:
        raise Misfit(path, "is null, and the table requires a value", _NULL_HINT)
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(field.type, result)
    return result


def match_names(names: list[str], fields: list[pa.Field], place: str) -> None:
    """Refuse names that are doubled, that the table lacks, or that it requires and are missing."""
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise SchemaMismatch(
            f"{place}: {_listed(doubled)} is there more than once",
            hint="Columns are taken by name: give each its own.",
        )
    wanted = [field.name for field in fields]
    unknown = [name for name in names if name not in wanted]
    if unknown:
        near = get_close_matches(unknown[0], wanted, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise SchemaMismatch(
            f"{place}: the table has no {_listed(unknown)}; it has {_listed(wanted)}",
            hint=f"Leave it out, rename it, or turn schema evolution on to add it.{meant}",
        )
    missing = [field.name for field in fields if not field.nullable and field.name not in names]
    if missing:
        raise SchemaMismatch(
            f"{place}: {_listed(missing)} is missing, and the table requires it",
            hint="Send it; only optional columns may be left out (they become null).",
        )


def without_views(table: pa.Table) -> pa.Table:
    """The same rows without string and binary views, on any level: Arrow's kernels do not take them."""
    fields = [field.with_type(_without_views(field.type)) for field in table.schema]
    if all(field.type == before.type for field, before in zip(fields, table.schema, strict=True)):
        return table
    return table.cast(pa.schema(fields, table.schema.metadata))


def _without_views(kind: pa.DataType) -> pa.DataType:
    # To the large forms, which hold whatever a view holds: what is too much for the table's own type is
    # found by the cast to it, with its row.
    if _Types.is_string_view(kind):
        return pa.large_string()
    if _Types.is_binary_view(kind):
        return pa.large_binary()
    if _Types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if _Types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if _Types.is_map(kind):
        key, item = (
            field.with_type(_without_views(field.type)) for field in (kind.key_field, kind.item_field)
        )
        return pa.map_(key, item, kind.keys_sorted)
    if _Types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if _Types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    if _Types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)), kind.list_size)
    # List views stay: a filter and `list_flatten` take them whatever is inside, and Arrow casts one whose
    # lists are out of order to empty lists (seen with pyarrow 26).
    return kind


def decoded(array: pa.Array) -> pa.Array:
    """The plain values behind an encoding. They may be nested: a dictionary of uuids."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif _Types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif _Types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def is_list_like(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's kinds of lists; a map is none."""
    return bool(
        _Types.is_list(kind)
        or _Types.is_large_list(kind)
        or _Types.is_fixed_size_list(kind)
        or _Types.is_list_view(kind)
        or _Types.is_large_list_view(kind)
    )


def _cast_struct(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if not _Types.is_struct(array.type):
        raise _mismatch(array.type, target, path)
    names = [field.name for field in array.type]
    match_names(names, list(target), f"column {path!r}")
    # flatten() makes a child null where its struct is: so what is left of a required child's nulls
    # beyond the struct's own are real ones.
    children = dict(zip(names, array.flatten(), strict=True))
    results = [
        cast_array(
            children.get(field.name, pa.nulls(len(array))),
            field,
            f"{path}.{field.name}",
            nulls_above=array.null_count,
        )
        for field in target
    ]
    if array.type == target:
        return array
    return pa.StructArray.from_arrays(results, fields=list(target), mask=_null_mask(array))


def _cast_list(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if not is_list_like(array.type):
        raise _mismatch(array.type, target, path)
    # Whatever kind of list came, its lengths and its elements in order are enough to build ours.
    inside = cast_array(elements(array), target.value_field, f"{path}.element")
    if array.type == target:
        return array
    return pa.ListArray.from_arrays(_offsets(array, path), inside, type=target, mask=_null_mask(array))


def _cast_map(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if not _Types.is_map(array.type):
        raise _mismatch(array.type, target, path)
    entries = as_lists(array)
    key, item = elements(entries).flatten()
    keys = cast_array(key, target.key_field, f"{path}.key")
    items = cast_array(item, target.item_field, f"{path}.value")
    if array.type == target:
        return array
    return pa.MapArray.from_arrays(_offsets(entries, path), keys, items, type=target, mask=_null_mask(array))


def _offsets(array: pa.Array, path: str) -> pa.Array:
    try:
        lengths = pc.list_value_length(array).fill_null(0).cast(pa.int32())
        ends = pc.cumulative_sum_checked(lengths)
    except pa.ArrowInvalid as error:
        raise Misfit(path, f"has more than 2^31 elements ({error})", "Send fewer rows at a time.") from error
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _cast_leaf(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    source = array.type
    if _text(source):
        _check_utf8(array, path)
    if source == target:
        return array
    if not _may_meet(source, target):
        raise _mismatch(source, target, path)
    try:
        if _Types.is_integer(source) and _Types.is_decimal(target):
            # Arrow asks a decimal for all digits that the integer's type could have, not for those of
            # its values: by way of a decimal that is always wide enough, the values decide.
            array = array.cast(pa.decimal256(20 + target.scale, target.scale))
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise Misfit(
            path,
            f"does not fit {target} ({error})",
            "Correct the value at the source, or give the table a wider type.",
        ) from error


def _check_utf8(array: pa.Array, path: str) -> None:
    """Arrow takes a string's bytes on trust. Parquet would write them, and every reader would fail."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Misfit(
            path, f"is not UTF-8 ({error})", "Mend it at the source, or send it as binary."
        ) from error


def _may_meet(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type can be values of the other without a change of meaning."""
    if _Types.is_integer(source):
        return bool(_Types.is_integer(target) or _Types.is_decimal(target))
    if _Types.is_floating(source):
        return bool(_Types.is_floating(target)) and source.bit_width <= target.bit_width
    if _Types.is_timestamp(source):
        return bool(_Types.is_timestamp(target)) and (source.tz is None) == (target.tz is None)
    if _Types.is_fixed_size_binary(source) and _Types.is_fixed_size_binary(target):
        return bool(source.byte_width == target.byte_width)
    kinds = (_Types.is_decimal, _Types.is_date, _Types.is_time, _text, _bytes)
    return any(kind(source) and kind(target) for kind in kinds)


def _text(kind: pa.DataType) -> bool:
    return bool(_Types.is_string(kind) or _Types.is_large_string(kind) or _Types.is_string_view(kind))


def _bytes(kind: pa.DataType) -> bool:
    return bool(
        _Types.is_binary(kind)
        or _Types.is_large_binary(kind)
        or _Types.is_binary_view(kind)
        or _Types.is_fixed_size_binary(kind)
    )


def _mismatch(source: pa.DataType, target: pa.DataType, path: str) -> SchemaMismatch:
    hint = f"Cast it to {target} before the sink, or change the table's column."
    if _Types.is_timestamp(source) and _Types.is_timestamp(target):
        hint = (
            "A time without a zone is not an instant: say which zone it is in before the sink."
            if source.tz is None
            else "The table keeps local times: convert to them and drop the zone before the sink."
        )
    return SchemaMismatch(f"column {path!r} is {source}, the table's is {target}", hint=hint)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
