"""OAuth2 client credentials: a token that is renewed before it expires, and when a server no longer takes it.

    credential = 'id:secret' ──POST grant_type=client_credentials──▶ token, expires_in
                                        ▲ scope, audience, resource

A token is asked for with a timeout, by one thread at a time, when the old one has less than a tenth of its
life left (a minute at most). A 401 in the middle lets it go, so that the same request is sent once more under
a new one (case 26).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.catalog.rest.response import TokenResponse, _handle_non_200_response
from pyiceberg.exceptions import OAuthError
from requests import HTTPError, Session

_MARGIN_SECONDS = 60.0
_SPOKEN = ("scope", "audience", "resource")


class ClientCredentials(AuthManager):
    """The bearer token of a client, always fresh."""

    def __init__(
        self,
        session: Session,
        uri: str,
        properties: Mapping[str, str],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`session` asks for tokens and has no login of its own."""
        client, colon, secret = properties["credential"].partition(":")
        self._form = {"grant_type": "client_credentials", "scope": "catalog"}
        self._form |= {"client_id": client, "client_secret": secret} if colon else {"client_secret": client}
        self._form |= {name: properties[name] for name in _SPOKEN if properties.get(name)}
        self._session, self._uri, self._ticks = session, uri, ticks
        self._token: str | None = properties.get("token")
        self._renew_at = float("inf")
        self._lock = threading.Lock()

    def auth_header(self) -> str:
        with self._lock:
            if self._token is None or self._ticks() >= self._renew_at:
                self._fetch()
            return f"Bearer {self._token}"

    def let_go(self) -> None:
        """The server no longer takes the token: the next request gets a new one."""
        with self._lock:
            self._token = None

    def _fetch(self) -> None:
        response = self._session.post(self._uri, data=self._form)
        try:
            response.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(error, {400: OAuthError, 401: OAuthError})
        try:
            answer = TokenResponse.model_validate_json(response.text)
        except ValueError:
            # Its own words would show the token.
            raise OAuthError("the server of tokens answers what is no token") from None
        self._token = answer.access_token
        life = float("inf") if answer.expires_in is None else float(answer.expires_in)
        self._renew_at = self._ticks() + life - min(_MARGIN_SECONDS, life / 10 if life < 1e9 else 0.0)


class Bearer(AuthManager):
    """A token that was given, and that nobody renews."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_header(self) -> str:
        return f"Bearer {self._token}"
