"""AWS logins: properties ──▶ a boto3 session whose credentials renew themselves.

    <service>.* · client.* · aws_*  ──▶  keys ──┐
    profile, environment, IAM role chain ───────┴──▶ source ──(role-arn)──▶ AssumeRole ──▶ Session

A name is looked up under the service's own prefix first (`glue.region`), then as PyIceberg spells it for all
of AWS (`client.region`), then as object stores spell it (`aws_region`). The three parts of a key are taken
from one prefix: a token of one login never goes with the key of another. What is left out follows boto3's own
chain: environment, profile, web identity, container and instance role.

Guarantee: a session never holds credentials longer than they are good for. boto3 renews those of its chain;
an assumed role is assumed again before it expires, by the source's credentials as they are then.

Not here: what the errors of AWS mean (aws_errors.py), and the signing of REST requests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import ConfigParseError, InvalidConfigError, ProfileNotFound

from calve.model.errors import ConfigError

CONNECT_S: Final = 3.0
REQUEST_S: Final = 30.0
OPENING_S: Final = 5.0
"""How long the first request may take: with the connection it stays under ten seconds."""

_ARN = re.compile(r"arn:(aws[a-z-]*):([a-z0-9-]+):([a-z0-9-]*):([0-9]*):(.+)", re.ASCII | re.DOTALL)
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]+:role/\S+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Arn:
    """The name of a resource of AWS."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @classmethod
    def parse(cls, text: str, *, service: str, example: str) -> Arn:
        """An ARN of a service; anything else is refused."""
        match = _ARN.fullmatch(text)
        if match is None or match[2] != service:
            raise ConfigError(f"{text!r} is not an ARN of {service}", hint=f"It reads {example}.")
        return cls(*match.groups())


def session(properties: Mapping[str, str], *, service: str = "client") -> boto3.Session:
    """A session with the login that the properties name. A role is assumed when it is first needed."""
    source = _source(properties, service)
    role = _first(properties, service, "role-arn")
    if role is None:
        return source
    if not _ROLE.fullmatch(role):
        raise ConfigError(
            f"client.role-arn is {role!r}, which is not the ARN of a role",
            hint="It reads arn:aws:iam::123456789012:role/name.",
        )
    name = _first(properties, service, "role-session-name") or "calve"
    external = properties.get("client.role-external-id")
    credentials = source.get_credentials()
    if credentials is None:
        raise no_login(f"the role {role} cannot be assumed")
    fetcher = AssumeRoleCredentialFetcher(
        partial(source.client, config=timeouts(properties, attempts=2)),
        credentials,
        role,
        extra_args={"RoleSessionName": name} | ({"ExternalId": external} if external else {}),
    )
    return _assumed(fetcher.fetch_credentials, source.region_name)


def timeouts(
    properties: Mapping[str, str], *, service: str = "client", attempts: int, request_s: float = REQUEST_S
) -> Config:
    """What a client needs so that no call waits for ever, and none is sent more often than it may be."""
    return Config(
        connect_timeout=_seconds(properties, service, "connect-timeout", CONNECT_S),
        read_timeout=_seconds(properties, service, "request-timeout", request_s),
        retries={"mode": "standard", "total_max_attempts": attempts},
    )


def no_login(what: str) -> ConfigError:
    """There are no credentials anywhere in the chain."""
    return ConfigError(
        f"{what}: there is no AWS login",
        hint="Give client.access-key-id and client.secret-access-key, client.profile-name, the environment's "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or an IAM role to the machine.",
    )


def _source(properties: Mapping[str, str], service: str) -> boto3.Session:
    keys = _keys(properties, service)
    profile = _first(properties, service, "profile-name")
    try:
        return boto3.Session(
            profile_name=profile,
            region_name=_first(properties, service, "region") or None,
            **keys,
        )
    except ProfileNotFound:
        raise ConfigError(
            f"the AWS profile {profile!r} is not configured"
            if profile
            else "the AWS profile of the environment is not configured",
            hint="Name one of ~/.aws/config as client.profile-name, or set AWS_CONFIG_FILE to its place.",
        ) from None
    except (ConfigParseError, InvalidConfigError):
        # Its own words quote the file, which may hold keys (P10).
        raise ConfigError(
            "the AWS configuration cannot be read", hint="Look at ~/.aws/config and ~/.aws/credentials."
        ) from None


_KEYS: Final = {
    "aws_access_key_id": "access-key-id",
    "aws_secret_access_key": "secret-access-key",
    "aws_session_token": "session-token",
}


def _keys(properties: Mapping[str, str], service: str) -> dict[str, str]:
    for prefix in dict.fromkeys((service, "client")):
        names = {argument: f"{prefix}.{name}" for argument, name in _KEYS.items()}
        if found := _keys_under(properties, names):
            return found
    return _keys_under(properties, {argument: argument for argument in _KEYS})


def _keys_under(properties: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    found = {argument: properties[name] for argument, name in names.items() if properties.get(name)}
    needed = (names["aws_access_key_id"], names["aws_secret_access_key"])
    missing = [name for name in needed if not properties.get(name)]
    if found and missing:
        raise ConfigError(
            f"an AWS login lacks {' and '.join(missing)}",
            hint="Give both parts of the key, or neither for the profile, the environment or the role.",
        )
    return found


def _first(properties: Mapping[str, str], service: str, name: str) -> str | None:
    spellings = (f"{service}.{name}", f"client.{name}", f"aws_{name.replace('-', '_')}")
    return next((properties[spelling] for spelling in spellings if properties.get(spelling)), None)


def _seconds(properties: Mapping[str, str], service: str, name: str, default: float) -> float:
    text = _first(properties, service, name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (0 < seconds < math.inf):
        raise ConfigError(f"{service}.{name} is {text!r}", hint="Give a number of seconds, such as 30.")
    return seconds


class _Assumed(CredentialProvider):  # type: ignore[misc]
    """The one provider of a session that has assumed a role."""

    METHOD = "calve-assume-role"

    def __init__(self, fetch: Callable[[], Any]) -> None:
        super().__init__()
        self._fetch = fetch

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(self._fetch, self.METHOD)


def _assumed(fetch: Callable[[], Any], region: str | None) -> boto3.Session:
    core = botocore.session.get_session()
    # First in the chain, so that nothing of the environment can stand in for the role.
    core.get_component("credential_provider").providers.insert(0, _Assumed(fetch))
    return boto3.Session(botocore_session=core, region_name=region)
