"""Calls to a catalog that is no REST server: every error of its client becomes one that `commit.py` knows.

    load_table, commit_table, … ──▶ PyIceberg ──▶ boto3, thrift
              ▲                                        │ an error of theirs
              └──── ForbiddenError, CommitStateUnknownException, … ◀── `as_known`

Guarantee: no public method of a catalog that is wrapped raises an error of the library underneath. It holds
for methods that PyIceberg adds as well, because all are wrapped and none is named.

Not here: which error means what (aws_errors.py, hive_errors.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
)
from pyiceberg.typedef import Identifier

from calve.model.errors import BadName, TableDiffers

C = TypeVar("C", bound=type["Metastore"])


class Metastore(MetastoreCatalog):
    """A catalog whose namespaces are databases, side by side."""

    foreign: tuple[type[Exception], ...]
    """The errors of the library underneath."""

    def as_known(self, error: Exception) -> Exception:
        """What an error of the library underneath means."""
        raise NotImplementedError

    @staticmethod
    def identifier_to_database(
        identifier: str | Identifier,
        err: type[ValueError] | type[NoSuchNamespaceError] = ValueError,  # noqa: ARG004
    ) -> str:
        parts = Catalog.identifier_to_tuple(identifier)
        if len(parts) != 1:
            raise _nested(parts)
        return parts[0]

    @staticmethod
    def identifier_to_database_and_table(
        identifier: str | Identifier,
        err: type[ValueError] | type[NoSuchTableError] | type[NoSuchNamespaceError] = ValueError,  # noqa: ARG004
    ) -> tuple[str, str]:
        parts = Catalog.identifier_to_tuple(identifier)
        if len(parts) != 2:
            raise _nested(parts[:-1])
        return parts[0], parts[1]


def translating(catalog: C) -> C:
    """A class of catalogs of which every public method raises only errors that are known."""
    for name in dir(catalog):
        method = getattr(catalog, name)
        # Static methods and those of `object` ask nobody.
        if not name.startswith("_") and isfunction(method) and name not in ("as_known", *_STATIC):
            setattr(catalog, name, _translated(method))
    return catalog


_STATIC = frozenset(name for name in dir(Catalog) if isinstance(Catalog.__dict__.get(name), staticmethod))


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Metastore, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except self.foreign as error:
            raise self.as_known(error) from error
        except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
            raise TableDiffers(
                f"the catalog has a table of this name that is not Iceberg's: {error}",
                hint="Name another table, or drop the one that is there.",
            ) from error

    return call


def _nested(namespace: Identifier) -> BadName:
    return BadName(
        f"the namespace {'.'.join(namespace)!r} has {len(namespace)} parts, and this catalog has no "
        "namespaces inside others",
        hint="Name one database. REST and SQL catalogs take nested namespaces.",
    )
