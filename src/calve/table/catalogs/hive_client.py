"""The thrift connection to a Hive metastore: timeouts, several servers, and a compare-and-swap.

    lock ──▶ get_table ──▶ metadata.json ──▶ heartbeat ──▶ alter_table
             the pointer                     still ours?   only if the pointer still is what was read

PyIceberg's commit relies on the lock alone. A lock expires (`hive.txn.timeout`) while its owner is stopped,
and the owner, when it goes on, would put its pointer over commits that others made since. So the lock is
asked for once more, and the alteration names the pointer that it replaces: metastores from 2.3.10 and 4.0 on
refuse it where another one stands there (HIVE-26882). Older ones ignore the condition, and leave the moment
between the two requests open.
"""

from __future__ import annotations

import threading
from typing import Any, Final
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    EnvironmentContext,
    HeartbeatRequest,
    LockRequest,
    LockResponse,
    NoSuchLockException,
    NoSuchTxnException,
    Table,
    TxnAbortedException,
)
from pyiceberg.catalog import METADATA_LOCATION, PREVIOUS_METADATA_LOCATION
from pyiceberg.catalog.hive import _HiveClient
from pyiceberg.exceptions import CommitFailedException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport import TTransport
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

CONNECT_S: Final = 3.0
REQUEST_S: Final = 30.0


class Connection(threading.local, _HiveClient):
    """A connection to the first of several metastores that takes it; each thread has its own."""

    def __init__(
        self, uris: tuple[str, ...], ugi: str | None, kerberos: str | None, request_s: float = REQUEST_S
    ) -> None:
        self._uris = uris
        self._request_s = request_s
        super().__init__(uris[0], ugi, kerberos is not None, kerberos)

    def _init_thrift_transport(self) -> TTransport:
        url = urlsplit(self._uri)
        self._socket = TSocket(url.hostname, url.port)
        self._socket.setTimeout(CONNECT_S * 1_000)
        if self._kerberos_auth:
            return TTransport.TSaslClientTransport(
                self._socket, host=url.hostname, service=self._kerberos_service_name
            )
        return TTransport.TBufferedTransport(self._socket)

    def _client(self) -> Client:
        client = _Client(TBinaryProtocol(self._transport))
        if self._ugi:
            client.set_ugi(*self._ugi)
        return client

    def __enter__(self) -> Client:
        for uri in self._uris:
            self._uri = uri
            self._transport = self._init_thrift_transport()
            try:
                self._transport.open()
            except TTransportException:
                if uri == self._uris[-1]:
                    raise
                continue
            break
        self._socket.setTimeout(self._request_s * 1_000)
        return self._client()


class _Client(Client):  # type: ignore[misc]
    """The metastore's calls, of which an alteration under a lock is made safe."""

    _lock: int | None = None

    def lock(self, rqst: LockRequest) -> LockResponse:
        response = super().lock(rqst)
        self._lock = response.lockid
        return response

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Table, environment_context: EnvironmentContext
    ) -> Any:
        if self._lock is not None:
            self._check_lock(self._lock)
            environment_context.properties = {
                **environment_context.properties,
                "expected_parameter_key": METADATA_LOCATION,
                "expected_parameter_value": new_tbl.parameters[PREVIOUS_METADATA_LOCATION],
            }
        return super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)

    def _check_lock(self, lock: int) -> None:
        try:
            self.heartbeat(HeartbeatRequest(lockid=lock))
        except (NoSuchLockException, NoSuchTxnException, TxnAbortedException) as error:
            raise CommitFailedException("the lock expired before the commit was sent") from error
