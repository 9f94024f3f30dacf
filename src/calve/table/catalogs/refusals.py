"""What it means when a server cannot be opened: each mistake an error of its own, with the next step.

Told by the type of what was raised, never by its text. Nothing was changed by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLCertVerificationError
from urllib.parse import urlsplit

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from requests import HTTPError, RequestException
from requests.exceptions import (
    ConnectionError as Unconnected,
)
from requests.exceptions import (
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    SSLError,
    Timeout,
    TooManyRedirects,
)
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)

from calve.config.catalog import CatalogConfig
from calve.model.errors import AccessDenied, CatalogError, ConfigError

_NOT_FOUND = (404, 405, 410)


@contextmanager
def reaching_server(config: CatalogConfig, uri: str) -> Iterator[None]:
    """The errors of a server that is opened, as our own. `uri` is where it is, as it may be shown."""
    try:
        yield
    except (OAuthError, UnauthorizedError, AuthorizationExpiredError, ForbiddenError) as error:
        raise _denied(config, uri, error) from None
    except (InvalidURL, InvalidSchema, MissingSchema):
        raise ConfigError(f"{uri} is no URL", hint="It reads https://host/…") from None
    except RequestException as error:
        raise _unreached(config, uri, error) from None
    except (RESTError, ValueError, NotImplementedError, AttributeError, KeyError, TypeError) as error:
        # PyIceberg looks into an answer before it checks it.
        raise _refused(config, uri, error) from None


def _denied(config: CatalogConfig, uri: str, error: Exception) -> AccessDenied:
    said = config.secrets.redact(str(error))[:300]
    if isinstance(error, ForbiddenError):
        return AccessDenied(
            f"the catalog at {uri} knows the login and denies it the catalog: {said}",
            hint=f"Grant it the right to use the warehouse {config.warehouse or '(none was given)'}.",
        )
    return AccessDenied(
        f"the catalog at {uri} refuses the login: {said}",
        hint="Look at credential, token, or user and password: a token may have expired, and a secret may "
        "have been changed. For OAuth2 look at scope, audience and oauth2-server-uri too.",
    )


def _unreached(config: CatalogConfig, uri: str, error: RequestException) -> CatalogError:
    # Not always the catalog's own: tokens may come from elsewhere.
    asked = None if error.request is None else error.request.url
    host = urlsplit(str(asked or uri)).netloc.rpartition("@")[2]
    reason = _reason(error)
    if isinstance(error, TooManyRedirects):
        return CatalogError(
            f"{host} sends its clients elsewhere, which is not followed: a redirection takes logins along",
            hint="Name the place that it leads to as 'catalog.uri'.",
        )
    if isinstance(error, SSLError) and not isinstance(_inner(reason), SSLCertVerificationError):
        return CatalogError(
            f"{host} does not speak TLS as we do: {config.secrets.redact(str(reason))[:200]}",
            hint="Is it http instead of https? Does the server want a client's certificate: ssl.client.cert?",
        )
    if isinstance(error, SSLError):
        return CatalogError(
            f"the certificate of {host} is not trusted: {config.secrets.redact(str(reason))[:300]}",
            hint="Is the host's name right? For a CA of your own give ssl.cabundle; for a server that wants "
            "a client's certificate give ssl.client.cert and ssl.client.key.",
        )
    if isinstance(reason, NameResolutionError):
        return CatalogError(f"the host {host} is not known", hint="Look at the host of 'catalog.uri'.")
    if _is_slow_connection(reason):
        return CatalogError(
            f"nothing answers at {host}: no connection in time",
            hint="Look at host and port of 'catalog.uri', and whether a firewall stands in between.",
        )
    if isinstance(error, Timeout) or isinstance(reason, ReadTimeoutError):
        return CatalogError(
            f"{host} took the request and did not answer in time",
            hint="Is the server overloaded? rest.timeout-ms is how long an answer is waited for.",
        )
    if isinstance(error, Unconnected):
        return CatalogError(
            f"no server listens at {host}, or it hung up",
            hint="Is the server up? Look at the port in the catalog's URI, and whether it is http or https.",
        )
    return CatalogError(
        f"the catalog at {uri} cannot be reached: {type(error).__name__}",
        hint="Look at 'catalog.uri'.",
    )


def _refused(config: CatalogConfig, uri: str, error: Exception) -> CatalogError:
    cause = error.__cause__
    status = (
        cause.response.status_code if isinstance(cause, HTTPError) and cause.response is not None else None
    )
    said = config.secrets.redact(str(error))[:300]
    if status in _NOT_FOUND or isinstance(error, BadRequestError):
        return CatalogError(
            f"the server at {uri} has no such catalog: {said}",
            hint="Does the warehouse exist, and is the path of 'catalog.uri' right? It is the part before "
            "/v1: for Polaris …/api/catalog, for Nessie …/iceberg, for Lakekeeper …/catalog.",
        )
    if status is None:
        return CatalogError(
            f"the server at {uri} answers, but not as an Iceberg REST catalog",
            hint="Look at the path of 'catalog.uri': it is the part before /v1.",
        )
    return CatalogError(
        f"the catalog at {uri} failed: {said}",
        hint="The server has an error of its own: look at its log, and start again.",
    )


def _inner(reason: object) -> object:
    """What urllib3 wraps."""
    return reason.args[0] if isinstance(reason, Exception) and reason.args else reason


def _is_slow_connection(reason: object) -> bool:
    # A connection that is refused at once is a kind of it, to the library.
    return isinstance(reason, ConnectTimeoutError) and not isinstance(reason, NewConnectionError)


def _reason(error: RequestException) -> object:
    inner = error.args[0] if error.args else error
    return inner.reason if isinstance(inner, MaxRetryError) else inner
