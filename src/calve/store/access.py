"""Access: how a store is reached and with which login. Plain values that may go to an executor.

    catalog's properties ─┐
    what a server vends  ─┼─▶ Access(settings, refresh) ──▶ store_for(location, access)
                          └──pickled with a task──▶ the same, in an executor

Settings have Iceberg's own names (`s3.endpoint`, `adls.sas-token`, …). An Access shows none of their values:
its repr has the names alone, and `redact` takes the values out of what libraries say (P10). It is made to be
sent: a task carries it, in memory and on the wire between driver and executors, and nothing that is kept
(checkpoint, stash, snapshot) does.

`refresh` says where new credentials come from when those here run out. In the driver it asks with the login
of that moment; a copy that is sent takes the login of the moment in which it was sent along.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from calve.model.errors import ConfigError, StoreError

REFRESH_SECONDS_MAX = 20
_GIVEN_MAX = 32
_MASK = "***"
_USERINFO = re.compile(r"(\w://)[^\s/@'\"]+@")
_SHORT = 4
_PREFIXES = ("s3.", "gcs.", "adls.", "client.", "store.")
# Settings whose values may be shown, by how their names end.
# fmt: off
_PLAIN = (
    "access-key-id", "account-name", "addressing", "client-id", "enabled", "endpoint", "host", "region",
    "retries", "role-arn", "size-bytes", "sse.type", "tenant-id", "timeout",
)
# fmt: on
CA_FILE, CA_PEM = "store.ca-file", "store.ca-pem"
"""A private CA: as a file of the driver, and its content, which is what executors get."""
_FILES = {CA_FILE: CA_PEM, "gcs.service-account-file": "gcs.service-account-key"}

ALIASES = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_endpoint": "s3.endpoint",
    "aws_endpoint_url": "s3.endpoint",
    "aws_profile": "s3.profile-name",
    "aws_region": "s3.region",
    "aws_role_arn": "s3.role-arn",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_virtual_hosted_style_request": "s3.force-virtual-addressing",
    "azure_client_id": "adls.client-id",
    "azure_client_secret": "adls.client-secret",
    "azure_storage_account_key": "adls.account-key",
    "azure_storage_account_name": "adls.account-name",
    "azure_storage_sas_token": "adls.sas-token",
    "azure_tenant_id": "adls.tenant-id",
    "google_application_credentials": "gcs.service-account-file",
    "google_service_account": "gcs.service-account-file",
    "google_service_account_key": "gcs.service-account-key",
}
"""As object stores spell them: the same settings, for who comes from there."""

_S3_LOGIN = frozenset(
    {
        "s3.access-key-id",
        "s3.profile-name",
        "s3.role-arn",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.session-token-expires-at-ms",
        "aws_access_key_id",
        "aws_profile",
        "aws_role_arn",
        "aws_secret_access_key",
        "aws_session_token",
    }
)

Headers = Callable[[], Mapping[str, str]]


def may_show(name: str) -> bool:
    """Whether the value of a setting is no secret."""
    return name.endswith(_PLAIN)


@dataclass(frozen=True, eq=False)
class Refresh:
    """A server that vends credentials for a table."""

    uri: str
    headers: Headers
    """What a request must carry now."""
    ca_pem: str | None = None
    certificate: tuple[str, str | None] | None = None
    """A client's certificate and its key, as files: a server that wants one is asked only where they are."""
    given: deque[str] = field(default_factory=lambda: deque(maxlen=_GIVEN_MAX), repr=False)
    """What was vended last: a store may say a token back to us, and it must not show (P10)."""

    def __call__(self, location: str) -> dict[str, str]:
        """New settings for a location."""
        request = urllib.request.Request(self.uri, headers=dict(self.headers()))
        try:
            # No redirection: it would take the login along, to whomever it leads.
            https = urllib.request.HTTPSHandler(
                context=self._tls() if self.uri.startswith("https:") else None
            )
            opener = urllib.request.build_opener(_NoRedirection, https)
            with opener.open(request, timeout=REFRESH_SECONDS_MAX) as answer:
                found = vended(json.load(answer), location)
                self.given.extend(value for name, value in found.items() if not name.endswith(_PLAIN))
                return found
        except (OSError, ValueError) as error:
            reason = type(error).__name__
            if isinstance(error, urllib.error.HTTPError):
                reason = f"HTTP {error.code}"
            raise StoreError(
                f"the credentials for {location} ran out, and the catalog gave no new ones ({reason})",
                hint="Is the catalog up, and may this login still ask for the table's credentials? Start the "
                "run again when it is: files that were not committed are written again.",
            ) from None

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca_pem)
        if self.certificate is not None:
            context.load_cert_chain(*self.certificate)
        return context

    def __reduce__(self) -> tuple[Any, ...]:
        return (_sent_refresh, (self.uri, dict(self.headers()), self.ca_pem, self.certificate))


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _sent_refresh(
    uri: str, headers: dict[str, str], ca_pem: str | None, certificate: tuple[str, str | None] | None
) -> Refresh:
    return Refresh(uri, lambda: headers, ca_pem, certificate)


@dataclass(frozen=True)
class Access:
    """Settings of a store, and where new ones come from."""

    settings: tuple[tuple[str, str], ...] = ()
    refresh: Refresh | None = field(default=None)
    scoped: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Settings that a server vends for some prefixes alone."""
    place: str = ""
    """The location that these settings are for; new ones are asked for it."""

    @classmethod
    def of(cls, properties: Mapping[str, Any], refresh: Refresh | None = None) -> Access:
        """What properties of a catalog or table say of stores; the rest is left out. Files that they name
        are read here, in the driver: executors need not have them."""
        said = {ALIASES.get(name.lower()): value for name, value in properties.items()} | dict(properties)
        chosen = {
            name: str(value)
            for name, value in said.items()
            if name is not None and name.startswith(_PREFIXES) and value is not None
        }
        for name, content in _FILES.items():
            if name in chosen:
                chosen[content] = _read(name, chosen.pop(name))
        return cls(tuple(sorted(chosen.items())), refresh)

    def at(self, location: str) -> Access:
        """The settings for a location: those of the longest prefix that fits, over those for all."""
        fits = [one for one in self.scoped if location.startswith(one[0])]
        if not fits:
            return replace(self, scoped=())
        prefix, settings = max(fits, key=lambda one: len(one[0]))
        merged = without_login(dict(self.settings), dict(settings)) | dict(settings)
        return replace(Access.of(merged, self.refresh), place=prefix)

    def get(self, *names: str) -> str | None:
        """The first of these settings that is set."""
        known = dict(self.settings)
        return next((known[name] for name in names if known.get(name)), None)

    def is_on(self, name: str, *, default: bool = False) -> bool:
        """A setting that is true or false."""
        value = self.get(name)
        if value is None:
            return default
        if (word := value.strip().lower()) not in ("true", "false"):
            raise ConfigError(f"the storage property {name!r} is neither true nor false", hint="Write one.")
        return word == "true"

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A setting that is a number between two others."""
        value = self.get(name)
        try:
            number = default if value is None else float(value)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise ConfigError(
                f"the storage property {name!r} cannot be followed",
                hint=f"Write a number from {least:,.0f} to {most:,.0f}.",
            )
        return number

    def endpoint(self, *names: str) -> str | None:
        """A setting that is the URL of a server."""
        value = self.get(*names)
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            good = good and "@" not in parts.netloc
        except ValueError:
            good = None
        if not good:
            raise ConfigError(
                f"the storage property {names[0]!r} is no URL of a server",
                hint="Write it as https://host:port, without a login in it.",
            )
        return value.rstrip("/")

    def redact(self, text: str) -> str:
        """A text without any value of these settings that may be a secret."""
        for secret in self._secrets():
            for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
                text = text.replace(form, _MASK)
        return _USERINFO.sub(rf"\1{_MASK}@", text)

    def _secrets(self) -> Iterable[str]:
        values = [value for name, value in self.settings if not name.endswith(_PLAIN)]
        values += () if self.refresh is None else self.refresh.given
        return sorted((value for value in values if len(value) >= _SHORT), key=len, reverse=True)

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.settings)
        return f"Access({names}{', refreshed' if self.refresh else ''})"


NO_ACCESS = Access()


def without_login(settings: dict[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Settings without their login, where others bring one: parts of two logins make none."""
    if "s3.access-key-id" not in other:
        return settings
    return {name: value for name, value in settings.items() if name.lower() not in _S3_LOGIN}


def vended(answer: Mapping[str, Any], location: str) -> dict[str, str]:
    """The settings that a server's answer has for a location: those of the longest prefix that fits, over
    those for all. The answer is of the credentials' endpoint, or of the table itself."""
    credentials = [
        one for one in answer.get("storage-credentials") or () if location.startswith(one.get("prefix", ""))
    ]
    best: Mapping[str, Any] = max(credentials, key=lambda one: len(one.get("prefix", "")), default={})
    return {**(answer.get("config") or {}), **best.get("config", {})}


def _read(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the file of {name!r} cannot be read: {path}", hint="Name a file that the driver can read."
        ) from error
