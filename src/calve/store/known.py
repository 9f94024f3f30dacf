"""The settings that stores follow, by name: what is none of them is told to whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable

from calve.store.access import ALIASES

KNOWN = (
    "adls.account-host",
    "adls.account-key",
    "adls.account-name",
    "adls.anonymous",
    "adls.authority-host",
    "adls.blob-storage-authority",
    "adls.blob-storage-scheme",
    "adls.client-id",
    "adls.client-secret",
    "adls.connection-string",
    "adls.sas-token",
    "adls.tenant-id",
    "adls.token",
    "client.access-key-id",
    "client.profile-name",
    "client.region",
    "client.role-arn",
    "client.role-external-id",
    "client.role-session-name",
    "client.secret-access-key",
    "client.session-token",
    "gcs.endpoint",
    "gcs.no-auth",
    "gcs.oauth2.token",
    "gcs.oauth2.token-expires-at",
    "gcs.project-id",
    "gcs.service-account-file",
    "gcs.service-account-key",
    "gcs.service.host",
    "s3.access-key-id",
    "s3.anonymous",
    "s3.connect-timeout",
    "s3.delete-enabled",
    "s3.endpoint",
    "s3.force-virtual-addressing",
    "s3.multipart.num-threads",
    "s3.multipart.part-size-bytes",
    "s3.path-style-access",
    "s3.profile-name",
    "s3.proxy-uri",
    "s3.region",
    "s3.request-timeout",
    "s3.role-arn",
    "s3.role-session-name",
    "s3.secret-access-key",
    "s3.server-side-encryption",
    "s3.session-token",
    "s3.session-token-expires-at-ms",
    "s3.sse-kms-key-id",
    "s3.sse.key",
    "s3.sse.type",
    "store.ca-file",
    "store.retries",
)
_OF_AN_ACCOUNT = ("adls.sas-token.", "adls.sas-token-expires-at-ms.")


def unknown(names: Iterable[str]) -> list[str]:
    """Those that no store follows."""
    known = {*KNOWN, *ALIASES}
    return [name for name in names if name.lower() not in known and not name.startswith(_OF_AN_ACCOUNT)]
