"""JDBC URLs as SQLAlchemy's: the same database, the same login, in the words of the Python driver.

    jdbc:sqlite:/lake/catalog.db                          ──▶ sqlite:////lake/catalog.db
    jdbc:postgresql://host/db?user=u&sslmode=require      ──▶ postgresql://u@host/db?sslmode=require

Guarantee: a setting is translated, is known to change nothing that matters here, or is refused by its name: a
connection that was asked to be encrypted is never opened in the clear because a word was not understood.
Neither a URL nor a value is shown in an error: both may carry a password (P10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode

from calve.model.errors import ConfigError

_POSTGRES = re.compile(
    r"postgresql:(?://(?P<host>[^/?]*)/)?(?P<database>[^?/]*)(?:\?(?P<query>.*))?", re.DOTALL
)
_HARMLESS = {
    # They tune a connection that is Spark's own; ours has the driver's defaults.
    "sqlite": {"cache_size", "journal_mode", "synchronous", "transaction_mode"},
    "postgresql": {
        "binaryTransfer", "defaultRowFetchSize", "loginTimeout", "prepareThreshold", "reWriteBatchedInserts",
        "socketTimeout", "stringtype", "tcpKeepAlive",
    },
}  # fmt: skip
_SAME = {"sslmode", "sslrootcert", "gssEncMode"}


def sqlalchemy_uri(url: str, settings: Mapping[str, str]) -> str:
    """The URI of a database that JDBC knows by `url`; `settings` are those beside it, such as `user`."""
    kind = url.removeprefix("jdbc:").partition(":")[0].lower()
    if kind == "sqlite":
        return _sqlite(url, settings)
    if kind == "postgresql":
        return _postgres(url, settings)
    raise ConfigError(
        f"a JDBC catalog in {kind!r} cannot be opened from Python: PyIceberg knows SQLite and PostgreSQL",
        hint="Keep the catalog in one of the two, or put a REST catalog in front of it.",
    )


def _sqlite(url: str, settings: Mapping[str, str]) -> str:
    path, _, query = url.split(":", 2)[2].partition("?")
    path = re.sub(r"^file:(?://(?=/))?", "", path)
    timeout: dict[str, str] = {}
    # A login for SQLite has no meaning, and Iceberg's examples give one all the same.
    for name, value in {**_no_login(settings), **_asked("sqlite", query)}.items():
        if name == "busy_timeout" and value.isdecimal():
            timeout["timeout"] = f"{int(value) / 1000:g}"
        elif name not in _HARMLESS["sqlite"]:
            raise _refused(name)
    return f"sqlite:///{path}{_with(timeout)}"


def _postgres(url: str, settings: Mapping[str, str]) -> str:
    match = _POSTGRES.fullmatch(url.removeprefix("jdbc:"))
    if match is None or "," in (match["host"] or "") or "@" in (match["host"] or ""):
        raise ConfigError(
            "the catalog's jdbc:postgresql: URL cannot be read",
            hint="It reads jdbc:postgresql://host:port/database?sslmode=…, with one host and the login as "
            "jdbc.user and jdbc.password. Or give the catalog by .catalog(name, uri='postgresql://…').",
        )
    # What stands in the URL wins over what stands beside it, as in the driver.
    asked = {**settings, **_asked("postgresql", match["query"] or "")}
    user, password = asked.pop("user", None), asked.pop("password", None)
    login = "" if user is None else quote(user, safe="")
    login += "" if password is None else ":" + quote(password, safe="")
    database = quote(unquote(match["database"] or user or ""), safe="")
    place = f"{match['host'] or 'localhost'}/{database}"
    return f"postgresql://{login and login + '@'}{place}{_with(_libpq(asked))}"


def _libpq(asked: Mapping[str, str]) -> dict[str, str]:
    """Settings of PostgreSQL's JDBC driver as those of its C library, which Python's drivers take."""
    said: dict[str, str] = {}
    for name, value in asked.items():
        if name in _SAME:
            said[name.lower()] = value
        elif name == "ssl":
            # The driver's own meaning of `ssl=true`: encrypted, and the server is who it says.
            if value.lower() != "false":
                said.setdefault("sslmode", asked.get("sslmode", "verify-full"))
        elif name == "currentSchema":
            said["options"] = f"-csearch_path={value}"
        elif name == "ApplicationName":
            said["application_name"] = value
        elif name == "connectTimeout":
            said["connect_timeout"] = value
        elif name not in _HARMLESS["postgresql"]:
            raise _refused(name)
    return said


def _asked(kind: str, query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        reason = f"what follows the ? of the catalog's jdbc:{kind}: URL cannot be read"
    raise ConfigError(reason, hint="It reads name=value, with & between them.")


def _no_login(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in ("user", "password")}


def _with(query: Mapping[str, str]) -> str:
    return f"?{urlencode(query, quote_via=quote)}" if query else ""


def _refused(name: str) -> ConfigError:
    return ConfigError(
        f"the catalog's JDBC setting {name[:80]!r} has no counterpart in Python's driver",
        hint="Give the catalog by .catalog(name, type='sql', uri='sqlite:///…' or 'postgresql://…'), with "
        "the driver's own words for it.",
    )
