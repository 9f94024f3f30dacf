"""One attempt: sent once, answered Landed, Conflict or Unknown. What follows is `protocol`'s to decide.

What an exception proves is written here, once, by its type. CommitFailedException is the catalog's own
no. Whatever may have been raised after the request left is Unknown: a lost connection, a server's 5xx,
a body that cannot be parsed, a locked database. A type that is not listed is a defect: it is raised, and
the batch stays in doubt until the table was read again.

Nothing is deleted here but old metadata files that the new metadata no longer lists (PyIceberg leaves
that to us): a manifest of an attempt that seems lost may be part of the table (P5).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import BadGzipFile
from typing import Final, Protocol, runtime_checkable

from pydantic import ValidationError as Faults
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    SignError,
    UnauthorizedError,
    ValidationError,
    WaitingForLockException,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from calve.model.errors import AccessDenied, CatalogError, FileMissing, StoreError, TableError, TableMissing
from calve.protocol.retry import Answer
from calve.table.base import Base
from calve.table.build import Attempt
from calve.table.fileio import NOTE

_REFUSED: Final = (CommitFailedException, BadRequestError, WaitingForLockException)
_DENIED: Final = (
    ForbiddenError,
    OAuthError,  # no token is given for the login: this request was not sent
)
_UNKNOWN: Final = (
    RESTError,  # 401, 429, 5xx and CommitStateUnknownException are all of this tree
    RequestException,
    SQLAlchemyError,
    OSError,
    StoreError,
    SignError,
    ValidationError,  # the table's metadata is none: what follows is read from the table, and says so
    ValueError,  # a body that is not JSON; PyIceberg's own checks raise it too, before anything was sent
)
_NO_METADATA: Final = (
    ValidationError,
    UnicodeDecodeError,
    BadGzipFile,
    EOFError,  # compressed, and cut
    zlib.error,
    # PyIceberg looks into metadata before it checks it.
    AttributeError,
    KeyError,
    TypeError,
)


@runtime_checkable
class CommitsMany(Protocol):
    """A catalog whose server may commit to several tables at once."""

    @property
    def commits_many(self) -> bool: ...

    def commit_tables(
        self, changes: Sequence[tuple[Identifier, Sequence[TableRequirement], Sequence[TableUpdate]]]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer; `base` is the table as the catalog showed it with a Landed."""

    answer: Answer
    base: Base | None = None
    cause: BaseException | None = None


def send(catalog: Catalog, base: Base, attempt: Attempt) -> Sent:
    """Send an attempt once."""
    response: CommitTableResponse | None = None

    def commit() -> None:
        nonlocal response
        response = catalog.commit_table(base.table, attempt.requirements, attempt.updates)

    try:
        sent = _sent(commit, base.table.name())
    except NotImplementedError as error:  # 501: something on the way said so, and not of what
        return Sent(Answer.UNKNOWN, cause=error)
    if response is None:
        return sent
    if response.metadata.snapshot_by_id(attempt.held) is None:
        # A success that shows nothing of ours: something on the way answered, not the catalog.
        return Sent(Answer.UNKNOWN, cause=ValueError("the answer has no snapshot of ours"))
    table = base.table
    fresh = Table(table.name(), response.metadata, response.metadata_location, table.io, catalog)
    landed = Base(fresh, attempt.manifests, attempt.main_summary)
    _remove_old_metadata(base.metadata, landed)
    return Sent(Answer.LANDED, landed)


def send_changes(
    catalog: Catalog, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
) -> Sent:
    """Send once what is no attempt of a run. A Landed shows no base."""

    def commit() -> None:
        catalog.commit_table(table, tuple(requirements), tuple(updates))

    return _sent(commit, table.name())


def commits_many(catalog: Catalog) -> bool:
    """Whether one request can commit to several tables of a catalog, all or none."""
    return isinstance(catalog, CommitsMany) and catalog.commits_many


def send_many(catalog: Catalog, attempts: Sequence[tuple[Base, Attempt]]) -> Sent:
    """Send attempts to several tables in one request: all land, or none does. A Landed shows no base: the
    server does not say what the tables are now. `NotImplementedError`: the server turns out to have no such
    endpoint, and nothing was sent; `commits_many` says so from then on."""
    assert isinstance(catalog, CommitsMany), "ask commits_many first"
    changes = [(base.table.name(), attempt.requirements, attempt.updates) for base, attempt in attempts]
    return _sent(lambda: catalog.commit_tables(changes), attempts[0][0].table.name())


def _sent(commit: Callable[[], None], table: Identifier) -> Sent:
    """What the end of a request proves."""
    try:
        commit()
    except _REFUSED as error:
        return Sent(Answer.CONFLICT, cause=error)
    except NoSuchTableError as error:
        raise _missing(table) from error
    except _DENIED as error:
        raise _denied(table, error) from error
    except _UNKNOWN as error:
        return Sent(Answer.UNKNOWN, cause=_without_content(error))
    except _NO_METADATA as error:
        if _file_of(error) is None:
            raise
        return Sent(Answer.UNKNOWN, cause=error)  # a file was being read: a look at the table tells which
    return Sent(Answer.LANDED)


def load(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    """The table as the catalog shows it now."""
    with reaching(identifier):
        try:
            return catalog.load_table(identifier)
        except _NO_METADATA as error:
            raise _unreadable(identifier, error) from error
        except FileMissing as error:
            raise FileMissing(
                f"{'.'.join(identifier)}: {error.message}",
                hint="The table's metadata file was deleted or moved. Restore it, or register the table anew "
                "with the last metadata.json beside it. Nothing was changed.",
            ) from error


@contextmanager
def reaching(identifier: tuple[str, ...]) -> Iterator[None]:
    """The errors of a catalog that is asked for anything but a commit, as our own."""
    try:
        yield
    except NoSuchTableError as error:
        raise _missing(identifier) from error
    except (*_DENIED, UnauthorizedError, AuthorizationExpiredError) as error:
        raise _denied(identifier, error) from error
    except StoreError:
        raise  # it names the file and the reason
    except (NoSuchNamespaceError, NamespaceNotEmptyError, NotImplementedError) as error:
        raise CatalogError(
            f"the catalog has no place for {'.'.join(identifier)}: {str(error)[:300]}",
            hint="Does the warehouse exist, and the namespace? Nothing was changed.",
        ) from error
    except BadRequestError as error:
        raise CatalogError(
            f"the catalog refuses {'.'.join(identifier)}: {said(error)}",
            hint="Does it take such names, properties and types? Nothing was changed.",
        ) from error
    except _UNKNOWN as error:
        raise CatalogError(
            f"the catalog cannot show or make {'.'.join(identifier)}: {said(error)}",
            hint="Is the catalog up and within reach? Nothing was changed; start again when it is.",
        ) from _without_content(error)


def may_pass(denied: AccessDenied) -> bool:
    """Whether a denial may be over at the next look: a login that expired (401) may be renewed, a right that
    is missing (403) is not there in a moment (cases 26, 27)."""
    return isinstance(denied.__cause__, UnauthorizedError | AuthorizationExpiredError)


def _without_content(error: Exception) -> Exception:
    """An error that does not quote what was being read: an answer may hold credentials (P10)."""
    if not isinstance(error, Faults):
        return error
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ValueError(f"an answer that cannot be read: {'.'.join(map(str, fault['loc']))}: {fault['type']}")


def said(error: BaseException) -> str:
    """A server's own words, which its door has freed of secrets; of a library's, the kind alone."""
    return str(error)[:300] if isinstance(error, RESTError) else type(error).__name__


def _unreadable(identifier: tuple[str, ...], error: Exception) -> TableError:
    cause = error.args[0] if error.args else None
    reason = type(error).__name__
    if isinstance(cause, Faults):
        fault = cause.errors(include_url=False, include_context=False, include_input=False)[0]
        reason = ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))
    file = _file_of(error) or "its metadata file"
    return TableError(
        f"{'.'.join(identifier)}: {file} is not the metadata of a table ({reason})",
        hint="The file was cut or replaced. Restore it, or register the table anew with the last "
        "metadata.json beside it that is whole. Nothing was changed.",
    )


def _file_of(error: Exception) -> str | None:
    """The file that was being read, where our own store read it."""
    notes = getattr(error, "__notes__", ())
    return next((note.removeprefix(NOTE) for note in notes if note.startswith(NOTE)), None)


def _missing(identifier: tuple[str, ...]) -> TableMissing:
    return TableMissing(
        f"{'.'.join(identifier)} is not in the catalog",
        hint="It was dropped or renamed. Restore it, or start a new sink; it is not created again by itself.",
    )


def _denied(identifier: tuple[str, ...], error: Exception) -> AccessDenied:
    return AccessDenied(
        f"the catalog denies access to {'.'.join(identifier)}: {str(error)[:300] or type(error).__name__}",
        hint="The sink needs the rights to read and to commit to the table, and a login that is still good: "
        "a token may have expired. Its files are kept; start again when the right is there.",
    )


def _remove_old_metadata(before: TableMetadata, landed: Base) -> None:
    """Remove metadata files that the table stopped listing, where it asks for that."""
    if (
        landed.metadata.properties.get("write.metadata.delete-after-commit.enabled", "false").lower()
        != "true"
    ):
        return
    listed = {entry.metadata_file for entry in landed.metadata.metadata_log}
    for entry in before.metadata_log:
        if entry.metadata_file not in listed:
            try:
                landed.io.delete(entry.metadata_file)
            except (StoreError, OSError):
                # The commit landed; a stale file that stays, or that somebody else removed, harms nobody.
                continue


def refuses(base: Base, attempt: Attempt) -> bool:
    """Whether a table as it is now would refuse an attempt."""
    try:
        for requirement in attempt.requirements:
            requirement.validate(base.metadata)
    except CommitFailedException:
        return True
    return False
