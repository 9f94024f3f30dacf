"""The properties that catalogs follow, by name: what is none of them is told to whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable

from calve.store.known import KNOWN as OF_STORES
from calve.store.known import unknown as unknown_to_stores

KNOWN = (
    "audience",
    "auth.basic.password",
    "auth.basic.username",
    "auth.type",
    "aws_access_key_id",
    "aws_region",
    "aws_secret_access_key",
    "aws_session_token",
    "client.connect-timeout",
    "client.request-timeout",
    "credential",
    "echo",
    "init_catalog_tables",
    "oauth2-server-uri",
    "password",
    "pool_pre_ping",
    "prefix",
    "py-io-impl",
    "resource",
    "rest-page-size",
    "rest.client.connection-timeout-ms",
    "rest.client.socket-timeout-ms",
    "rest.signing-name",
    "rest.signing-region",
    "rest.sigv4-enabled",
    "rest.timeout-ms",
    "scope",
    "ssl.cabundle",
    "ssl.client.cert",
    "ssl.client.key",
    "thrift_uri",
    "token",
    "ugi",
    "user",
)
_FAMILIES = (
    "auth.",
    "glue.",
    "header.",
    "hive.",
    "s3tables.",
    "rest.sigv4.",
    "namespace-separator",
    "client.",
)


def unknown(names: Iterable[str]) -> list[str]:
    """Those that neither a catalog nor a store follows."""
    known = {*KNOWN}
    left = [name for name in names if name not in known and not name.startswith(_FAMILIES)]
    return unknown_to_stores(left)


ALL = (*KNOWN, *OF_STORES)
