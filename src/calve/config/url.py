"""The URL of a sink: `iceberg://host:8181/sales/orders?warehouse=s3://lake&equality_delete_by=id`.

    iceberg://host:8181/api/catalog/sales.emea/orders?write.mode=upsert&credential=env:LAKE
              └───────┬────────────┘└───┬────┘└─┬──┘ └────────┬────────┘
              REST server          namespace  table     any option of docs/options.md

A URL is options in one line: it is turned into them, and nothing else knows of it. Without a host the catalog
is the one that the options describe: SQLite in the warehouse where they name none.

Guarantee (P10): a URL holds no secret. A login before the host, or inside a URI that is a value, is refused,
and so is a secret as it is: it is named, `env:NAME` or `file:/path`, and read when the URL is. Of a query an
error shows names alone.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from calve.config.options.listing import OPTION_OF_FIELD, OPTIONS
from calve.config.secret import MASK, carries_login, is_secret_name
from calve.config.units import nearest, parse_bool
from calve.model.errors import BadName, ConfigError, UnknownOption, about

SCHEME = "iceberg://"
_FORM = "Write iceberg://host:port/namespace/table?warehouse=…; docs/catalogs.md tells more."
_SHORT = {
    "equality_delete_by": "equality.delete.columns",
    "credential": "catalog.prop.credential",
    "scope": "catalog.prop.scope",
    "token": "catalog.prop.token",
}
_IN_PATH = ("namespace", "table.name", "table")
_BY_HOST = ("catalog.uri", "uri")
_TLS = "tls"
_NAMES = {option.name: option.name for option in OPTIONS if option.prefix is None}
_FIELDS = {
    field: name for field, name in OPTION_OF_FIELD.items() if "." not in field and not name.endswith("*")
}
_PARAMETERS = {**_FIELDS, **_SHORT, **_NAMES}
"""What may stand in a query, and which option it is."""
_PREFIXES = tuple(option.prefix for option in OPTIONS if option.prefix is not None)
_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"[\w.-]+|[^\s\]]*:[^\s\]]*")
"""A name or an address of four numbers; or, with colons, what stood in brackets."""


def is_sink_url(name: object) -> bool:
    """Whether a table is named by a URL."""
    return isinstance(name, str) and name.lower().startswith(SCHEME)


def show_name(name: str) -> str:
    """The name of a table as an error may show it: of a URL neither its login nor its query."""
    scheme, mark, rest = name.partition("://")
    if not mark:
        return name
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    shown = f"{MASK}@{place.rpartition('@')[2]}" if "@" in place else place
    return f"{scheme}{mark}{shown}" + ("" if place == rest else "?…")


def url_options(url: str) -> dict[str, object]:
    """The options that a URL stands for."""
    with about("url"):
        return _url_options(url)


def _url_options(url: str) -> dict[str, object]:
    if not is_sink_url(url):
        raise ConfigError(f"the URL of a sink begins with {SCHEME}", hint=_FORM)
    if _CONTROL.search(url):
        # urlsplit would leave it out without a word.
        raise ConfigError(
            f"the {SCHEME} URL has a line break, or another character that does not show",
            hint="Write it in one line, and such a character of a value percent-encoded (%0A).",
        )
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        raise ConfigError(f"host and port of the {SCHEME} URL cannot be read", hint=_FORM) from None
    if "@" in split.netloc:
        raise ConfigError(
            f"the {SCHEME} URL has a login before its host, and URLs are shown in many places",
            hint="Name it instead: credential=env:NAME or token=env:NAME.",
        )
    if (host is not None and not _HOST.fullmatch(host)) or port == 0:
        raise ConfigError(f"the {SCHEME} URL has a host or a port that no server can have", hint=_FORM)
    if split.fragment:
        raise ConfigError(f"the {SCHEME} URL has a fragment", hint="Write a # of a value as %23.")
    *path, namespace, table = _segments(split)
    options = _query(split.query)
    tls = options.pop(_TLS, None)
    named: dict[str, object] = {"namespace": namespace, "table.name": table}
    if host is None:
        if path or port is not None:
            raise ConfigError(f"the {SCHEME} URL has no host", hint=_FORM)
        return {**named, **options}
    _check_rest(options)
    scheme = "https" if _uses_tls(host, tls) else "http"
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None else f"{shown}:{port}"
    uri = f"{scheme}://{place}" + "".join(f"/{part}" for part in path)
    return {**named, "catalog.type": "rest", "catalog.uri": uri, **options}


def _segments(split: SplitResult) -> list[str]:
    """The path: what belongs to the server, still encoded, then the namespace and the table."""
    parts = split.path.removeprefix("/").split("/")
    if len(parts) < 2 or not all(parts):
        raise BadName(f"the {SCHEME} URL does not name a namespace and a table", hint=_FORM)
    return [*parts[:-2], _decoded(parts[-2], "namespace"), _decoded(parts[-1], "table")]


def _query(query: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for piece in filter(None, query.split("&")):
        written, equals, value = piece.partition("=")
        name = _decoded(written, "name of a parameter")
        if not equals:
            raise ConfigError(f"the parameter {name[:80]!r} has no value", hint="Write name=value.")
        option = name if name == _TLS else _option_of(name)
        if option in options:
            raise ConfigError(f"the parameter {name[:80]!r} says again what was said", hint="Say it once.")
        options[option] = _value(option, _decoded(value, f"value of {name[:80]!r}"))
    return options


def _option_of(name: str) -> str:
    if name in _IN_PATH:
        raise ConfigError(f"the parameter {name!r} says what the path says", hint=_FORM)
    if name in _PARAMETERS:
        return _PARAMETERS[name]
    if any(name.startswith(prefix) and len(name) > len(prefix) for prefix in _PREFIXES):
        return name
    near = nearest(name.lower(), [*_PARAMETERS, _TLS])
    raise UnknownOption(
        f"there is no parameter {name[:80]!r}",
        hint=f"Did you mean {near!r}?" if near else "docs/options.md lists the options that a URL takes.",
    )


def _value(option: str, value: str) -> object:
    if option not in _BY_HOST and not option.startswith(_PREFIXES):
        return value
    kind, _, place = value.partition(":")
    if kind == "env" and place:
        if place not in os.environ:
            raise ConfigError(
                f"the parameter {option[:80]!r} names a variable that the environment does not have",
                hint="Set it before the sink is named, or name another: env:NAME.",
            )
        return os.environ[place]
    if kind == "file" and place:
        try:
            return Path(place).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the parameter {option[:80]!r} names a file that cannot be read: {type(error).__name__}",
                hint="Name a file that holds the secret alone: file:/run/secrets/lake.",
            ) from None
    if is_secret_name(option) or carries_login(value):
        what = "is a secret" if is_secret_name(option) else "carries a login or a key"
        raise ConfigError(
            f"the parameter {option[:80]!r} {what}, and URLs are shown in many places",
            hint=f"Name where it is: {option[:80]}=env:NAME or {option[:80]}=file:/path.",
        )
    return value


def _check_rest(options: dict[str, object]) -> None:
    if any(name in options for name in _BY_HOST):
        raise ConfigError(
            f"the {SCHEME} URL names the catalog by its host and by 'catalog.uri'",
            hint="Leave one of the two out; without a host it is iceberg:///namespace/table?catalog.uri=….",
        )
    if str(options.get("catalog.type", "rest")).strip().lower() != "rest":
        raise ConfigError(
            f"the host of the {SCHEME} URL is a REST server, and 'catalog.type' says another",
            hint="Leave the host out: iceberg:///namespace/table?catalog.type=…&catalog.uri=….",
        )


def _uses_tls(host: str, said: object) -> bool:
    """https, but for a server on this machine: nobody listens in between."""
    if said is not None:
        return parse_bool(said, f"the parameter '{_TLS}'")
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")


def _decoded(text: str, what: str) -> str:
    if _ENCODED.search(text) is None:
        try:
            return unquote(text, errors="strict")
        except UnicodeDecodeError:
            pass
    raise ConfigError(
        f"the {what} in the {SCHEME} URL is not percent-encoded", hint="Write a % of a name as %25."
    )
