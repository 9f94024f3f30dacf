"""How a REST server is told who asks: the properties' login as PyIceberg's auth manager.

credential       OAuth2 client credentials, with scope, audience and oauth2-server-uri
token            a bearer token as it is
user, password   basic
auth.type        basic, oauth2, google, entra or noop, with its own settings behind `auth.<type>.`
nothing          no login; SigV4 (rest.sigv4-enabled) signs each request instead (http.py)
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog.rest.auth import AuthManager, AuthManagerFactory, BasicAuthManager, NoopAuthManager
from requests import Session

from calve.model.errors import ConfigError
from calve.table.catalogs.oauth import Bearer, ClientCredentials

_TYPES = ("basic", "entra", "google", "noop", "oauth2")


def login(properties: Mapping[str, str], tokens: Session, uri: str) -> AuthManager:
    """The login that properties describe. `tokens` is the session that may ask for tokens; `uri` is where the
    server gives some, unless the properties name another place."""
    kind = _kind(properties)
    inner = {
        name.removeprefix(f"auth.{kind}."): value
        for name, value in properties.items()
        if name.startswith(f"auth.{kind}.")
    }
    match kind:
        case "basic":
            user = inner.get("username") or properties.get("user")
            password = inner.get("password") or properties.get("password")
            if not user or password is None:
                raise ConfigError(
                    "a basic login needs a user and a password",
                    hint="Give the properties 'user' and 'password'.",
                )
            return BasicAuthManager(user, password)
        case "oauth2":
            return ClientCredentials(tokens, *_oauth2(properties, inner, uri))
        case "token":
            return Bearer(properties["token"])
        case "none" | "noop":
            return NoopAuthManager()
        case _:
            try:
                return AuthManagerFactory.create(kind, inner)
            except ImportError as error:
                package = {"google": "google-auth", "entra": "azure-identity"}[kind]
                raise ConfigError(
                    f"auth.type is {kind!r}, which needs a package that is not installed: {error.name}",
                    hint=f"pip install {package}.",
                ) from None


def _kind(properties: Mapping[str, str]) -> str:
    if (said := properties.get("auth.type")) is not None:
        kind = said.strip().lower()
        if kind not in _TYPES:
            raise ConfigError(f"auth.type is {said!r}", hint=f"It is one of {', '.join(_TYPES)}.")
        return kind
    if "credential" in properties:
        return "oauth2"
    if "token" in properties:
        return "token"
    return "basic" if "user" in properties or "password" in properties else "none"


def _oauth2(
    properties: Mapping[str, str], inner: Mapping[str, str], uri: str
) -> tuple[str, Mapping[str, str]]:
    if "client_id" in inner or "client_secret" in inner:
        credential = f"{inner.get('client_id', '')}:{inner.get('client_secret', '')}"
        return inner.get("token_url", uri), {**properties, **inner, "credential": credential}
    if "credential" not in properties:
        raise ConfigError(
            "an OAuth2 login needs a credential", hint="Give the property 'credential' as id:secret."
        )
    return properties.get("oauth2-server-uri", uri), properties
