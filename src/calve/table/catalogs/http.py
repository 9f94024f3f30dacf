"""The way to a REST server: a timeout on every request, nothing sent twice by itself, no secret in an answer.

Guarantee: a request that changes something is sent once. Only one that was never received (the connection was
not made) or that only reads goes out again. A request that may have been applied ends in an exception that
`table/commit.py` takes for Unknown. What a server says in an error is freed of our secrets before anybody
reads it (P10).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pyiceberg.exceptions import UnauthorizedError
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError, ReadTimeout
from urllib3.exceptions import DecodeError, ProtocolError, ReadTimeoutError
from urllib3.util.retry import Retry

from calve.config.secret import Secrets
from calve.model.errors import ConfigError

CONNECT_SECONDS = 3.0
READ_SECONDS = 60.0
OPENING_SECONDS = 4.0
_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_CONNECT = ("rest.client.connection-timeout-ms",)
_READ = ("rest.timeout-ms", "rest.client.socket-timeout-ms")


class Timed(HTTPAdapter):
    """Requests that end: answered, refused, or timed out."""

    def __init__(self, properties: Mapping[str, str], *, opening: bool = False) -> None:
        """`opening`: the first requests, by which a person learns whether the server is there."""
        connect, read = timeouts(properties)
        self._timeout = (connect, min(read, OPENING_SECONDS) if opening else read)
        self._bundle = _file(properties, "ssl.cabundle")
        # A connection that was not made is tried once more for all; an answer that did not come, only for
        # requests that change nothing.
        again = Retry(total=1, status=0, other=0, allowed_methods=("GET", "HEAD"), backoff_factor=0.1)
        super().__init__(max_retries=again)

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        if self._bundle is not None:
            # Here, because requests lets a bundle of the environment go before the session's own.
            kwargs["verify"] = self._bundle
        kwargs["stream"] = True
        return self._whole(super().send(request, *args, **kwargs))

    def _whole(self, response: Response) -> Response:
        """Read all of an answer, within its time: one that comes in drops would never end."""
        ends, chunks = time.monotonic() + self._timeout[1], []
        try:
            while chunk := response.raw.read1(1 << 16, decode_content=True):
                chunks.append(chunk)
                if time.monotonic() > ends:
                    raise ReadTimeout(f"no end of an answer within {self._timeout[1]:.0f} s")
        except ReadTimeoutError as error:
            raise ReadTimeout(str(error), request=response.request) from error
        except (ProtocolError, DecodeError) as error:
            raise ChunkedEncodingError(str(error), request=response.request) from error
        finally:
            # Read to its end the connection is kept; otherwise it is closed.
            response.raw.release_conn() if response.raw.isclosed() else response.close()
        response._content = b"".join(chunks)
        response._content_consumed = True
        return response


class Signed(Timed):
    """The same, signed as AWS wants it (SigV4), with the credentials of the moment."""

    def __init__(
        self, properties: Mapping[str, str], session: Any, region: str, service: str, *, opening: bool = False
    ) -> None:
        super().__init__(properties, opening=opening)
        self._credentials, self._region, self._service = session.get_credentials(), region, service

    def add_headers(self, request: PreparedRequest, **_: Any) -> None:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        request.headers.pop("connection", None)  # it changes on the way
        if not request.body:
            request.headers["x-amz-content-sha256"] = _EMPTY_SHA256
        url = str(request.url)
        unsigned = AWSRequest(
            method=request.method,
            url=url.partition("?")[0],
            params=dict(parse_qsl(urlsplit(url).query, keep_blank_values=True)),
            data=request.body,
            headers=dict(request.headers),
        )
        try:
            credentials = self._credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            # The request was not sent. The library's own words may hold an account's names.
            raise UnauthorizedError(
                f"AWS gives no credentials to sign with: {type(error).__name__}"
            ) from error
        SigV4Auth(credentials, self._service, self._region).add_auth(unsigned)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in unsigned.headers:
                # A bearer token that was there keeps a name of its own, as Iceberg's clients do.
                if name == "Authorization" and name in request.headers:
                    request.headers["Original-Authorization"] = request.headers[name]
                request.headers[name] = unsigned.headers[name]


def timeouts(properties: Mapping[str, str]) -> tuple[float, float]:
    """How long a request may wait for a connection, and for an answer, in seconds."""
    return _seconds(properties, _CONNECT, CONNECT_SECONDS), _seconds(properties, _READ, READ_SECONDS)


def make_session(properties: Mapping[str, str], adapter: HTTPAdapter, secrets: Secrets) -> Session:
    """A session with the properties' TLS, over an adapter of ours."""
    session = Session()
    # A redirection turns a commit into a look, whose answer reads like a success; and it takes secrets along.
    session.max_redirects = 0
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    if (bundle := _file(properties, "ssl.cabundle")) is not None:
        session.verify = bundle
    certificate, key = _file(properties, "ssl.client.cert"), _file(properties, "ssl.client.key")
    if key is not None and certificate is None:
        raise ConfigError("ssl.client.key is there without a certificate", hint="Give ssl.client.cert too.")
    if certificate is not None:
        session.cert = certificate if key is None else (certificate, key)

    def without_secrets(response: Response, **_: Any) -> Response:
        if response.status_code >= 400:
            response._content = secrets.redact(response.text).encode()
            response.encoding = "utf-8"
        return response

    session.hooks["response"].append(without_secrets)
    return session


def _file(properties: Mapping[str, str], name: str) -> str | None:
    path = properties.get(name)
    if path is not None and not Path(path).is_file():
        raise ConfigError(f"there is no file for {name!r}: {path}", hint="Name a PEM file that can be read.")
    return path


def _seconds(properties: Mapping[str, str], names: tuple[str, ...], default: float) -> float:
    for name in names:
        if name in properties:
            try:
                milliseconds = float(properties[name])
            except ValueError:
                milliseconds = 0
            if not 0 < milliseconds < 3_600_000:
                raise ConfigError(
                    f"the catalog property {name!r} is not a time", hint="Give milliseconds, such as 30000."
                )
            return milliseconds / 1000
    return default
