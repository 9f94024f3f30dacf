"""The Hive metastore: PyIceberg's, with timeouts, locks that are waited for, and errors that are understood.

A commit takes the metastore's lock on the table. A process that is killed in the middle leaves its lock there
until the metastore drops it (`hive.txn.timeout`, five minutes by default): others wait somewhat longer than
that, then stop with the lock's owner in the message.

Where it is: `catalog.uri`, or the property `thrift_uri`, = thrift://host:9083, several with commas between.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Final
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import CheckLockRequest, LockResponse, LockState, MetaException, ShowLocksRequest
from pyiceberg.catalog import LOCATION, URI, WAREHOUSE_LOCATION, Catalog
from pyiceberg.catalog.hive import (
    HIVE_KERBEROS_AUTH,
    HIVE_KERBEROS_SERVICE_NAME,
    HIVE_KERBEROS_SERVICE_NAME_DEFAULT,
    HiveCatalog,
)
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.properties import property_as_bool
from thrift.Thrift import TException

from calve.config.catalog import CatalogConfig
from calve.config.secret import Secrets
from calve.model.errors import BadName, CatalogError, ConfigError
from calve.table.catalogs import hive_errors
from calve.table.catalogs.calls import Metastore, translating
from calve.table.catalogs.hive_client import REQUEST_S, Connection
from calve.table.catalogs.properties import file_properties

LOCK_WAIT: Final = "hive.lock-wait"
REQUEST_TIMEOUT: Final = "hive.request-timeout"
_KEEP: Final = ".calve"
_NAME_MAX: Final = 128
_LOCK_WAIT_S: Final = 330.0
_OPENING_S: Final = 5.0
_TELLS_S: Final = 5.0
_PAUSE_S: Final = (0.02, 1.0)

_log = logging.getLogger(__name__)


def open_catalog(config: CatalogConfig) -> Catalog:
    """A metastore. One request tells that it is there."""
    properties = file_properties(config)
    uris = _uris(properties[URI])
    catalog = Hive(config.name, properties, config.secrets)
    try:
        with _connection(properties, uris, _OPENING_S) as client:
            client.get_database("default")
    except hive_errors.HIVE_ERRORS as error:
        raise CatalogError(
            f"the Hive metastore at {config.uri} cannot be reached: "
            f"{config.secrets.redact(hive_errors.text_of(error))}",
            hint="Is it up? Are host and port right (thrift without TLS, as a rule 9083)?",
        ) from error
    return catalog


@translating
class Hive(Metastore, HiveCatalog):
    """PyIceberg's catalog over our connection."""

    foreign = hive_errors.HIVE_ERRORS

    def __init__(self, name: str, properties: dict[str, str], secrets: Secrets) -> None:
        super().__init__(name, **properties)
        self._secrets = secrets
        self._lock_wait_s = _seconds(properties, LOCK_WAIT, _LOCK_WAIT_S)

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Connection:
        return _connection(
            properties, _uris(properties[URI]), _seconds(properties, REQUEST_TIMEOUT, REQUEST_S)
        )

    @staticmethod
    def identifier_to_database_and_table(
        identifier: str | Identifier,
        err: type[ValueError] | type[NoSuchTableError] | type[NoSuchNamespaceError] = ValueError,
    ) -> tuple[str, str]:
        names = Metastore.identifier_to_database_and_table(identifier, err)
        # The metastore takes such a table, and then has no room for its name among the locks.
        if any(len(name) > _NAME_MAX for name in names):
            raise BadName(
                f"{'.'.join(names)} is longer than a Hive metastore can lock",
                hint=f"Names of databases and tables have at most {_NAME_MAX} characters there.",
            )
        return names

    def as_known(self, error: Exception) -> Exception:
        return hive_errors.as_known(error, self._secrets)

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create a database, in our warehouse: left alone, the metastore would take one of its own."""
        name = self.identifier_to_database(namespace)
        place = properties.get(LOCATION) or f"{self.properties[WAREHOUSE_LOCATION].rstrip('/')}/{name}"
        self._keep(place)
        try:
            super().create_namespace(namespace, {**properties, LOCATION: place})
        except MetaException as error:
            # Of two that make it at once, one is told of a failure inside.
            if self.namespace_exists(namespace):
                raise NamespaceAlreadyExistsError(f"{name} exists") from error
            raise

    def _keep(self, folder: str) -> None:
        """Make the folder of a database.

        Of two that create one database at once, one fails, and the metastore then deletes the folder that it
        made for that one, with the first table of the other in it (seen with 2.3.10). A folder that was there
        before is left alone.
        """
        file = self._load_file_io(location=folder).new_output(f"{folder}/{_KEEP}")
        with file.create(overwrite=True) as stream:
            stream.write(b"")

    def _wait_for_lock(
        self, database_name: str, table_name: str, lockid: int, open_client: Client
    ) -> LockResponse:
        """The lock, when it is ours. Asking for it keeps our place in the queue."""
        begun, pause_s, told = time.monotonic(), _PAUSE_S[0], False
        while True:
            response = open_client.check_lock(CheckLockRequest(lockid=lockid))
            if response.state == LockState.ACQUIRED:
                return response
            if response.state != LockState.WAITING:
                raise CommitFailedException(f"the lock on {database_name}.{table_name} was not granted")
            waited_s = time.monotonic() - begun
            if waited_s >= self._lock_wait_s:
                raise _locked(f"{database_name}.{table_name}", _owner(open_client, database_name, table_name))
            if waited_s >= _TELLS_S and not told:
                told = True
                owner = _owner(open_client, database_name, table_name)
                _log.warning("waiting for the lock on %s.%s, %s", database_name, table_name, owner)
            time.sleep(pause_s)  # the metastore tells nobody when a lock is free
            pause_s = min(pause_s * 2, _PAUSE_S[1])


def _locked(table: str, owner: str) -> CatalogError:
    return CatalogError(
        f"{table} is locked in the Hive metastore, {owner}",
        hint="If that process is gone, its lock expires after the metastore's hive.txn.timeout, where the "
        "metastore looks for such locks; otherwise release it (SHOW LOCKS, ABORT TRANSACTIONS). Nothing was "
        "committed; start again then.",
    )


def _owner(client: Client, database: str, table: str) -> str:
    try:
        locks = client.show_locks(ShowLocksRequest(dbname=database, tablename=table)).locks
    except TException:  # older metastores show locks to administrators alone
        return "by an owner that it does not name"
    held = [lock for lock in locks if lock.state == LockState.ACQUIRED]
    return (
        ", ".join(f"by {lock.user} on {lock.hostname} (lock {lock.lockid})" for lock in held) or "by nobody"
    )


def _connection(properties: dict[str, str], uris: tuple[str, ...], request_s: float) -> Connection:
    kerberos = None
    if property_as_bool(properties, HIVE_KERBEROS_AUTH, False):
        kerberos = properties.get(HIVE_KERBEROS_SERVICE_NAME, HIVE_KERBEROS_SERVICE_NAME_DEFAULT)
    try:
        return Connection(uris, properties.get("ugi"), kerberos, request_s)
    except ImportError as error:
        raise ConfigError(
            f"a Hive metastore with Kerberos needs a package that is not installed: {error.name}",
            hint="pip install 'pyiceberg[hive-kerberos]'.",
        ) from None


def _uris(text: str) -> tuple[str, ...]:
    uris = tuple(uri.strip() for uri in text.split(","))
    for uri in uris:
        try:
            parts = urlsplit(uri)
            whole = parts.scheme == "thrift" and parts.hostname and parts.port and not parts.username
        except ValueError:
            whole = False
        if not whole:
            raise ConfigError(
                f"catalog.uri number {uris.index(uri) + 1} is not the address of a Hive metastore",
                hint="It reads thrift://host:9083, several with commas between them.",
            )
    return uris


def _seconds(properties: dict[str, str], name: str, default: float) -> float:
    try:
        seconds = float(properties.get(name, default))
    except ValueError:
        seconds = 0.0
    if not (0 < seconds < math.inf):
        raise ConfigError(f"{name} is {properties[name]!r}", hint="Give a number of seconds, such as 30.")
    return seconds
