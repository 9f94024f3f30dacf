"""Iceberg REST catalogs: Polaris, Unity, Nessie, Lakekeeper, Glue's and S3 Tables' endpoints, and all others.

    requests ──login, timeout──▶ server ──▶ table, with the credentials that the server vends for its files
                                                       └──▶ StoreFileIO, which renews them

PyIceberg knows the protocol; this adds what a sink under fire needs: timeouts and no blind retry (http.py), a
login that renews itself (oauth.py), an `Idempotency-Key` where the server knows it, vended credentials that
are renewed, a commit over many tables, and a table's location where the server hands out a file's path.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from pyiceberg.catalog.rest import (
    API_PREFIX,
    Capability,
    Endpoint,
    Endpoints,
    HttpMethod,
    RestCatalog,
    TableResponse,
)
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table, TableIdentifier
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from requests import HTTPError, Request, Response, Session
from requests.adapters import HTTPAdapter

from calve.config.catalog import CatalogConfig
from calve.config.secret import Secrets
from calve.store.access import Refresh, without_login
from calve.table.catalogs.http import Signed, Timed, make_session
from calve.table.catalogs.login import login
from calve.table.catalogs.oauth import ClientCredentials
from calve.table.catalogs.properties import file_properties, is_on, missing_boto
from calve.table.catalogs.refusals import reaching_server
from calve.table.fileio import StoreFileIO
from calve.table.location import table_root

_COMMIT_MANY = Endpoint(http_method=HttpMethod.POST, path=f"{API_PREFIX}/transactions/commit")
_REFRESH = (
    "client.refresh-credentials-endpoint",
    "gcs.oauth2.refresh-credentials-endpoint",
    "adls.refresh-credentials-endpoint",
)
_TEMPORARY = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""What requests trusts where nothing is said."""
_ANSWERS: dict[int, type[Exception]] = {
    404: NoSuchTableError,
    409: CommitFailedException,
    500: CommitStateUnknownException,
    502: CommitStateUnknownException,
    504: CommitStateUnknownException,
}


_NO_ENDPOINT = {405: NotImplementedError, 406: NotImplementedError, 501: NotImplementedError}


def open_catalog(config: CatalogConfig) -> RestCatalog:
    """A REST catalog; the server was asked for its configuration."""
    return connect(config, file_properties(config))


def connect(config: CatalogConfig, properties: dict[str, str]) -> RestCatalog:
    """The same, with properties of which the secrets are revealed."""
    with reaching_server(config, str(config.uri or properties["uri"])):
        return Rest(config.name, config.secrets, **properties)


class Rest(RestCatalog):
    """PyIceberg's client, made fit for a network that lies."""

    def __init__(self, name: str, secrets: Secrets, **properties: str) -> None:
        self._secrets = secrets
        self._opening = True
        self._keeps_keys = False
        """Whether the server advertises that it knows `Idempotency-Key`."""
        self._may_commit_many = False
        """The server names no endpoints. Then it has, by the specification, this one too."""
        # All snapshots: the lineage of main is walked through them.
        super().__init__(name, **{**properties, "snapshot-loading-mode": "all"})

    @property
    def commits_many(self) -> bool:
        """Whether one request can commit to several tables."""
        return _COMMIT_MANY in self._supported_endpoints or self._may_commit_many

    def _create_session(self) -> Session:
        properties = self.properties
        opening, self._opening = self._opening, False  # the first session only asks for the configuration
        adapter = self._adapter(properties, opening=opening)
        session = make_session(properties, adapter, self._secrets)
        self._config_headers(session)
        if self._auth_manager is None:  # PyIceberg makes two sessions; both have one login
            tokens = make_session(properties, Timed(properties, opening=True), self._secrets)
            uri = self.url(Endpoints.get_token, prefixed=False)
            self._auth_manager = login(properties, tokens, uri)
        session.auth = _Login(self._auth_manager)
        session.hooks["response"].append(self._note_config)
        return session

    def _adapter(self, properties: Mapping[str, str], *, opening: bool) -> HTTPAdapter:
        if not is_on(properties, "rest.sigv4-enabled"):
            return Timed(properties, opening=opening)
        try:
            from calve.store.aws import no_login, session
        except ModuleNotFoundError as error:
            raise missing_boto(error) from None
        source = session(properties)
        if source.get_credentials() is None:
            raise no_login("requests to the catalog cannot be signed")
        region = properties.get("rest.signing-region") or source.region_name or "us-east-1"
        service = properties.get("rest.signing-name", "execute-api")
        return Signed(properties, source, region, service, opening=opening)

    def _note_config(self, response: Response, **_: Any) -> None:
        if response.ok and response.url.partition("?")[0].endswith("/v1/config"):
            self._keeps_keys = b'"idempotency-key-lifetime"' in response.content
            self._may_commit_many = b'"endpoints"' not in response.content

    def _refresh_token(self) -> None:
        """Called by PyIceberg when a server answered 401, before it sends the same request once more."""
        if isinstance(self._auth_manager, ClientCredentials):
            self._auth_manager.let_go()

    # -- commits -----------------------------------------------------------------------------------

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """One request, sent once. A 401 was not applied: it is sent again under a new login, with its key."""
        self._check_endpoint(Capability.V1_UPDATE_TABLE)
        identifier = _identifier(table.name())
        request = CommitTableRequest(identifier=identifier, requirements=requirements, updates=updates)
        url = self.url(Endpoints.update_table, **self._split_identifier_for_path(identifier))
        response = self._post_once(url, request.model_dump_json().encode())
        answer = CommitTableResponse.model_validate_json(response.text)
        return answer.model_copy(update={"metadata": _with_root(answer.metadata)})

    def commit_tables(
        self, changes: Sequence[tuple[Identifier, Sequence[TableRequirement], Sequence[TableUpdate]]]
    ) -> None:
        """Commit to several tables at once: all of them, or none."""
        requests = [
            CommitTableRequest(
                identifier=_identifier(table), requirements=tuple(requirements), updates=tuple(updates)
            ).model_dump_json()
            for table, requirements, updates in changes
        ]
        body = f'{{"table-changes":[{",".join(requests)}]}}'
        try:
            self._post_once(self.url("transactions/commit"), body.encode(), _ANSWERS | _NO_ENDPOINT)
        except NotImplementedError:
            self._may_commit_many = False
            raise

    def _post_once(
        self, url: str, body: bytes, answers: Mapping[int, type[Exception]] = _ANSWERS
    ) -> Response:
        headers = {"Idempotency-Key": str(uuid7())} if self._keeps_keys else {}
        response = self._session.post(url, data=body, headers=headers)
        if response.status_code in (401, 419) and isinstance(self._auth_manager, ClientCredentials):
            self._refresh_token()
            response = self._session.post(url, data=body, headers=headers)
        try:
            response.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(error, dict(answers))
        return response

    # -- tables ------------------------------------------------------------------------------------

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        metadata = _with_root(table_response.metadata)
        return Table(
            identifier=identifier_tuple,
            metadata=metadata,
            metadata_location=str(table_response.metadata_location),
            io=self._files(identifier_tuple, table_response, metadata.location),
            catalog=self,
            config=table_response.config,
        )

    def _files(self, identifier: Identifier, response: TableResponse, root: str) -> StoreFileIO:
        """The table's files, under what the server says of them. A table's own properties are not asked: who
        may set one could send our credentials elsewhere."""
        said = response.config
        settings = {**without_login(dict(self.properties), said), **said}
        scoped = {one.prefix: dict(one.config) for one in response.storage_credentials}
        vended = [said, *scoped.values()]
        is_temporary = any(name.startswith(_TEMPORARY) for one in vended for name in one)
        told = {name: value for one in vended for name, value in one.items() if name in _REFRESH}
        refresh = self._refresh(identifier, settings | told) if is_temporary else None
        return StoreFileIO(settings, refresh, scoped, root)

    def _refresh(self, identifier: Identifier, settings: Mapping[str, str]) -> Refresh | None:
        """Where new credentials for a table come from: the endpoint that the server names, the one that it
        has for that, or the table itself."""
        if not is_on(settings, "client.refresh-credentials-enabled", default=True):
            return None
        names = self._split_identifier_for_path(identifier)
        told = next((settings[name] for name in _REFRESH if settings.get(name)), None)
        if told is not None:
            uri = urljoin(self.uri.rstrip("/") + "/", told.lstrip("/"))
        elif Capability.V1_LOAD_CREDENTIALS in self._supported_endpoints:
            uri = self.url(Endpoints.load_credentials, **names)
        else:
            uri = self.url(Endpoints.load_table, **names) + "?snapshots=refs"

        def headers() -> dict[str, str]:
            request = self._session.prepare_request(Request("GET", uri))
            adapter = self._session.get_adapter(uri)
            assert isinstance(adapter, HTTPAdapter)
            adapter.add_headers(request)
            return {name: str(value) for name, value in request.headers.items()}

        shown = self.properties.get("ssl.client.cert")
        certificate = None if shown is None else (shown, self.properties.get("ssl.client.key"))
        trusted = (self.properties.get("ssl.cabundle"), *map(os.environ.get, _BUNDLES))
        bundle = next(filter(None, trusted), None)
        return Refresh(uri, headers, _read_bundle(bundle), certificate)


class _Login:
    """PyIceberg's auth manager, as requests asks for it."""

    def __init__(self, manager: Any) -> None:
        self.auth_manager = manager

    def __call__(self, request: Any) -> Any:
        if (header := self.auth_manager.auth_header()) is not None:
            request.headers["Authorization"] = header
        return request


def uuid7() -> uuid.UUID:
    """A UUID of version 7, by time and chance: the form that servers want of an `Idempotency-Key`."""
    number = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76  # version
    return uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62)  # variant


def _with_root(metadata: TableMetadata) -> TableMetadata:
    root = table_root(metadata.location)
    return metadata if root == metadata.location else metadata.model_copy(update={"location": root})


def _identifier(table: Identifier) -> TableIdentifier:
    return TableIdentifier(namespace=table[:-1], name=table[-1])


def _read_bundle(path: str | None) -> str | None:
    return Path(path).read_text(encoding="utf-8") if path is not None and Path(path).is_file() else None
