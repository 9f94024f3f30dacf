"""Credentials that run out: new ones before they do, for as long as a client lives.

obstore asks for a credential with each request and keeps what it got until shortly before it expires. So an
upload of many parts goes on under new credentials in its middle (case 37). The same code serves the driver
and the executors.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calve.store.access import Access

_MARGIN = dt.timedelta(minutes=1)
_UNKNOWN_LIFE = dt.timedelta(minutes=10)
"""Of temporary credentials that do not tell when they expire: AWS gives none for less than 15 minutes."""


@dataclass(frozen=True)
class Login:
    """What one kind of store takes as a credential, and until when. Never shown."""

    credential: dict[str, Any]
    expires_at_ms: str | None

    def __repr__(self) -> str:
        return "Login(***)"


def provider(location: str, access: Access, read: Callable[[Access], Login]) -> Any:
    """What obstore asks for credentials: those of an Access, and those that follow them."""
    return _Vended(access.place or location, access, read)


class _Vended:
    def __init__(self, location: str, access: Access, read: Callable[[Access], Login]) -> None:
        self._location, self._access, self._read = location, access, read
        self._lock = threading.Lock()
        self._fetched = _now()

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            expires_at = self._expires_at()
            if expires_at is not None and _now() >= expires_at - self._margin(expires_at):
                self._renew()
                expires_at = self._expires_at()
            return {**self._read(self._access).credential, "expires_at": expires_at}

    def _renew(self) -> None:
        assert self._access.refresh is not None
        settings = dict(self._access.settings) | self._access.refresh(self._location)
        self._access = Access.of(settings, self._access.refresh)
        self._fetched = _now()

    def _margin(self, expires_at: dt.datetime) -> dt.timedelta:
        """How long before their end they are renewed: short-lived ones would be renewed all the time."""
        return min(_MARGIN, (expires_at - self._fetched) / 4)

    def _expires_at(self) -> dt.datetime | None:
        if self._access.refresh is None:
            return None  # nobody would give new ones
        told = self._read(self._access).expires_at_ms
        if told is None:
            return self._fetched + _UNKNOWN_LIFE
        return dt.datetime.fromtimestamp(int(told) / 1000, dt.UTC)


def expires_soon() -> dt.datetime:
    """When a credential is asked for again that somebody else keeps fresh."""
    return _now() + _UNKNOWN_LIFE


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
