"""What the Hive metastore says, in the words that `commit.py` knows: every error of it and of thrift."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hive_metastore import ttypes
from pyiceberg import exceptions as known
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from calve import ConfigError
from calve.config.secret import Secrets
from calve.model.errors import BadName
from calve.table import commit
from calve.table.catalogs import hive_errors

MAY_HAVE_HAPPENED = known.CommitStateUnknownException
METASTORE = {
    "AlreadyExistsException": known.TableAlreadyExistsError,
    "ConfigValSecurityException": known.ForbiddenError,
    "InvalidInputException": known.BadRequestError,
    "InvalidOperationException": MAY_HAVE_HAPPENED,
    "InvalidPartitionException": known.BadRequestError,
    "MetaException": MAY_HAVE_HAPPENED,
    "NoSuchLockException": MAY_HAVE_HAPPENED,
    "NoSuchObjectException": known.NoSuchTableError,
    "NoSuchTxnException": MAY_HAVE_HAPPENED,
    "TxnAbortedException": MAY_HAVE_HAPPENED,
    "TxnOpenException": MAY_HAVE_HAPPENED,
    "UnknownDBException": known.NoSuchNamespaceError,
    "UnknownPartitionException": known.BadRequestError,
    "UnknownTableException": known.NoSuchTableError,
}


def of_the_metastore() -> list[Any]:
    found: list[Any] = [kind for _, kind in inspect.getmembers(ttypes, inspect.isclass)]
    return [kind for kind in found if issubclass(kind, TException) and kind.__module__ == ttypes.__name__]


@pytest.mark.parametrize("kind", of_the_metastore(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_metastore_has_a_meaning(kind: Any) -> None:
    told = hive_errors.as_known(kind(message="what it says"), Secrets())
    assert "what it says" in str(told)
    assert type(told) is (BadName if kind.__name__ == "InvalidObjectException" else METASTORE[kind.__name__])


@pytest.mark.parametrize(
    "error, meaning",
    [
        (TTransportException(TTransportException.NOT_OPEN), known.ServiceUnavailableError),
        (TTransportException(TTransportException.TIMED_OUT), MAY_HAVE_HAPPENED),
        (TTransportException(TTransportException.END_OF_FILE), MAY_HAVE_HAPPENED),
        (TTransportException(TTransportException.UNKNOWN), MAY_HAVE_HAPPENED),
        (TProtocolException(TProtocolException.BAD_VERSION), MAY_HAVE_HAPPENED),
        (TApplicationException(TApplicationException.UNKNOWN_METHOD), known.BadRequestError),
        (TApplicationException(TApplicationException.INTERNAL_ERROR), MAY_HAVE_HAPPENED),
        (TException("x"), MAY_HAVE_HAPPENED),
    ],
)
def test_what_thrift_lost_on_the_way_may_have_happened(error: Exception, meaning: type[Exception]) -> None:
    assert hive_errors.kind_of(error) is meaning
    assert isinstance(error, hive_errors.HIVE_ERRORS)
    assert issubclass(meaning, (*commit._REFUSED, *commit._DENIED, *commit._UNKNOWN))


def test_a_secret_in_an_error_of_the_metastore_does_not_show() -> None:
    told = hive_errors.as_known(
        ttypes.MetaException("jdbc password canary-secret"), Secrets(["canary-secret"])
    )
    assert "canary-secret" not in str(told)


def test_a_name_that_the_metastore_refuses_is_a_matter_of_configuration() -> None:
    told = hive_errors.as_known(ttypes.InvalidObjectException("größe is not a valid object name"), Secrets())
    assert isinstance(told, ConfigError)
