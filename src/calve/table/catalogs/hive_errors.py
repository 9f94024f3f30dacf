"""What an error of the Hive metastore proves, by its type.

The metastore reports most of what goes wrong inside it as a MetaException, before or after it changed its
database: such a request may have happened, and the table tells. A refusal is only what is checked before
anything is done.
"""

from __future__ import annotations

from typing import Final

from hive_metastore.ttypes import (
    AlreadyExistsException,
    ConfigValSecurityException,
    InvalidInputException,
    InvalidObjectException,
    InvalidPartitionException,
    NoSuchObjectException,
    UnknownDBException,
    UnknownPartitionException,
    UnknownTableException,
)
from pyiceberg.exceptions import (
    BadRequestError,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
)
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from calve.config.secret import Secrets
from calve.model.errors import BadName

HIVE_ERRORS: Final = (TException,)

_KINDS: Final[dict[type[Exception], type[Exception]]] = {
    AlreadyExistsException: TableAlreadyExistsError,
    ConfigValSecurityException: ForbiddenError,
    InvalidInputException: BadRequestError,
    InvalidPartitionException: BadRequestError,
    NoSuchObjectException: NoSuchTableError,
    UnknownDBException: NoSuchNamespaceError,
    UnknownPartitionException: BadRequestError,
    UnknownTableException: NoSuchTableError,
}
_NOT_RUN: Final = (TApplicationException.UNKNOWN_METHOD, TApplicationException.INVALID_MESSAGE_TYPE)


def as_known(error: Exception, secrets: Secrets) -> Exception:
    """An error of the metastore as one of those that `commit.py` knows, or as our own."""
    if isinstance(error, InvalidObjectException):
        return BadName(
            f"the Hive metastore refuses a name or a column: {secrets.redact(text_of(error))}",
            hint="Its databases and tables are named with ASCII letters, digits and '_', up to 128 of them.",
        )
    return kind_of(error)(secrets.redact(f"{type(error).__name__}: {text_of(error)}"))


def kind_of(error: Exception) -> type[Exception]:
    """What an error of the metastore proves. Pure."""
    if isinstance(error, TTransportException) and error.type == TTransportException.NOT_OPEN:
        return ServiceUnavailableError
    if isinstance(error, TApplicationException) and error.type in _NOT_RUN:
        return BadRequestError
    return _KINDS.get(type(error), CommitStateUnknownException)


def text_of(error: Exception) -> str:
    """What the metastore or thrift says of it."""
    return str(getattr(error, "message", None) or error)
