"""Random types in Iceberg's notation."""

from __future__ import annotations

from hypothesis import strategies as st

from calve.config.types import Decimal, List, Map, Plain, Struct, Type
from calve.config.types.tree import PLAIN


def decimals() -> st.SearchStrategy[Decimal]:
    return st.integers(1, 38).flatmap(
        lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits))
    )


def names() -> st.SearchStrategy[str]:
    return st.text(min_size=1, max_size=8) | st.sampled_from(["a", "a b", 'say "a"', "`", "list", "9"])


def types() -> st.SearchStrategy[Type]:
    """Any type, a few levels deep."""
    plain = st.sampled_from(PLAIN).map(Plain) | decimals()
    return st.recursive(plain, _nested, max_leaves=6)


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.lists(st.tuples(names(), inner), min_size=1, max_size=3, unique_by=lambda field: field[0])
    return inner.map(List) | st.builds(Map, inner, inner) | fields.map(lambda fields: Struct(tuple(fields)))
