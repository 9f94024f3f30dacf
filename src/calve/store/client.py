"""What all object stores have in common: how patient a client is, and whom it trusts."""

from __future__ import annotations

import datetime as dt
from typing import Any

from calve.store.access import CA_PEM, Access

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 60.0
RETRIES_MAX = 10
RETRY_SECONDS = 120.0


def client_options(access: Access, endpoint: str | None) -> Any:
    """obstore's client options."""
    options: dict[str, Any] = {
        "connect_timeout": _seconds(access.number("s3.connect-timeout", CONNECT_SECONDS, 0.01, 3600)),
        "timeout": _seconds(access.number("s3.request-timeout", REQUEST_SECONDS, 0.01, 3600)),
        "user_agent": "calve",
    }
    if endpoint is not None and endpoint.startswith("http:"):
        options["allow_http"] = True
    if (pem := access.get(CA_PEM)) is not None:
        options["root_certificate"] = pem
    if (proxy := access.get("s3.proxy-uri")) is not None:
        options["proxy_url"] = proxy
    return options


def retry_config(access: Access) -> Any:
    """How often a request is sent again: a store that says 503 is asked again (case 32)."""
    return {
        "max_retries": int(access.number("store.retries", RETRIES_MAX, 0, 1000)),
        "retry_timeout": _seconds(RETRY_SECONDS),
    }


def given(config: dict[str, Any]) -> Any:
    """A configuration without what was not said, which obstore then takes from the environment."""
    return {name: value for name, value in config.items() if value is not None}


def _seconds(number: float) -> dt.timedelta:
    return dt.timedelta(seconds=number)
