"""The connection: what columns there are, which time it is, and all that happened between two times.

A progress message at t says that nothing before t is to come. A subscription without a snapshot tells what
is *after* its AS OF: to go on at `lower`, inclusive, it begins AS OF lower - 1. UP TO is exclusive, as our
bounds.

The first message of a subscription is the progress at its AS OF, and without one the server takes a time at
which its inputs can be read: so the time is asked for by a subscription that is dropped after its first
message, and no row is sent.

A subscription tells its progress about every second, so a server that is silent for long does not answer any
more, whether its machine does (a process that hangs, a proxy that forgot) or not (keepalives): the statement
ends with an error then, in place of standing still for ever.

No error shows a password (P10).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from calve.model.errors import ConfigError, Overcompacted, StoreError

FETCH_ROWS = 10_000
"""Rows that are asked for at a time: what a task holds of them (P9)."""

SILENCE_SECONDS_MAX = 300
"""How long a server may say nothing, unless the URI tells otherwise. Longer than its pulse by far: before the
first rows of a query come, Materialize may read for minutes."""
_SILENCE = re.compile(r"(?<=[?&])silence_seconds_max=([^&]*)(?:&|$)")
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""A machine that is gone is noticed in a minute (libpq's names); the URI may tell otherwise."""

Texts = list[tuple[str | None, ...]]
_RETAIN = "ALTER MATERIALIZED VIEW … SET (RETAIN HISTORY FOR '1hr') keeps what a restart needs."


@dataclass(frozen=True)
class Login:
    """Where the server is, and who asks. Its text is in nobody's repr."""

    uri: str = field(repr=False, default="")
    password: str | None = field(repr=False, default=None)

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A cursor whose values are all texts."""
        psycopg, adapters = _psycopg()
        silence, uri = self._silence()
        place = ""
        try:
            said = _ALIVE | psycopg.conninfo.conninfo_to_dict(uri)
            named = [str(said[name]) for name in ("host", "port") if said.get(name)]
            place = f" at {':'.join(named)}" if named else ""
            more = {} if self.password is None else {"password": self.password}
            # FETCH is sent often, and each time it means something else: nothing to prepare.
            made = _watched(psycopg, silence).connect(
                autocommit=True, prepare_threshold=None, context=adapters, **said | more
            )
            with made as connection:
                with connection.cursor() as cursor:
                    yield cursor
        except psycopg.Error as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(
                f"Materialize{place}: {self.redact(said)}",
                hint="Look at host, port, user and database, and at what the server says. Nothing was lost: "
                "the next start goes on.",
            ) from None

    def _silence(self) -> tuple[int, str]:
        """How long the server may say nothing, and the URI without what is ours."""
        found = _SILENCE.search(self.uri)
        if found is None:
            return SILENCE_SECONDS_MAX, self.uri
        if not re.fullmatch("[1-9][0-9]{0,8}", found[1]):
            raise ConfigError(
                "silence_seconds_max in the URI of Materialize is no number of seconds",
                hint=f"Write a whole number from 1 on, or leave it out: it is {SILENCE_SECONDS_MAX} then.",
                about="uri",
            )
        return int(found[1]), (self.uri[: found.start()] + self.uri[found.end() :]).rstrip("?&")

    def redact(self, text: str) -> str:
        """A text without the password."""
        for secret in filter(None, {self.password, *self._in_uri()}):
            text = text.replace(secret, "***")
        return text

    def _in_uri(self) -> set[str]:
        from urllib.parse import unquote

        userinfo, at, _ = self.uri.partition("://")[2].rpartition("@")
        password = userinfo.partition(":")[2] if at else ""
        return {password, unquote(password)} - {""}


@dataclass(frozen=True)
class Subscription:
    """What is subscribed to: a relation by its name, or a query."""

    relation: str

    @classmethod
    def of(cls, name: str | None, query: str | None) -> Subscription:
        if (name is None) == (query is None):
            raise ConfigError(
                "a subscription is to one relation, or to one query",
                hint="Give the option object, such as 'public.orders', or the option query.",
            )
        if query is not None:
            return cls(f"({query.strip().rstrip(';')})")
        return cls(".".join(_quoted(part) for part in (name or "").split(".")))

    def columns(self, login: Login) -> list[Any]:
        """The columns, as the server describes them."""
        with login.session() as cursor:
            # A name after the parentheses, where it is a query.
            cursor.execute(f"SELECT * FROM {self.relation} AS calve LIMIT 0")
            return list(cursor.description or ())

    def now(self, login: Login) -> int:
        """A time at which the relation can be read."""
        with login.session() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(
                f"DECLARE calve CURSOR FOR SUBSCRIBE {self.relation} WITH (PROGRESS, SNAPSHOT = false)"
            )
            first = cursor.execute("FETCH 1 calve").fetchone()
            cursor.execute("ROLLBACK")
        if first is None or first[1] != "t":
            raise StoreError(
                "Materialize: the subscription ended before it told its time",
                hint="A relation that never changes needs no stream: read it once.",
            )
        return int(first[0])

    def between(self, login: Login, lower: int | None, upper: int) -> Iterator[Texts]:
        """All that happened in [lower, upper), and all that was there at the end, where there is no lower."""
        as_of, snapshot = (upper - 1, "true") if lower is None else (lower - 1, "false")
        statement = (
            f"DECLARE calve CURSOR FOR SUBSCRIBE {self.relation} "
            f"WITH (PROGRESS, SNAPSHOT = {snapshot}) AS OF {as_of} UP TO {upper}"
        )
        psycopg, _ = _psycopg()
        with login.session() as cursor:
            cursor.execute("BEGIN")
            try:
                cursor.execute(statement)
                # It waits for rows; none at all means that the subscription has come to its end.
                rows = cursor.execute(f"FETCH {FETCH_ROWS} calve").fetchall()
            except psycopg.Error as error:
                if lower is None or error.sqlstate is None:
                    raise
                raise Overcompacted(
                    f"Materialize does not tell what follows {as_of}: {login.redact(str(error).strip())}",
                    hint=f"Its history is gone, or the relation is another. {_RETAIN} Otherwise start a new "
                    "table, or a new checkpoint that begins with all that is there.",
                ) from None
            while rows:
                yield rows
                rows = cursor.execute(f"FETCH {FETCH_ROWS} calve").fetchall()
            cursor.execute("ROLLBACK")


def heard(
    waits: Generator[Any, Any, Any],
    seconds: int,
    silent: Callable[[], Exception],
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Any, Any, Any]:
    """The same waits, which fail when nothing could be read or written for so many seconds. Whoever runs
    them tells several times a second what the connection is ready for, and nothing if it is for nothing."""
    last = clock()
    try:
        wanted = next(waits)
        while True:
            ready = yield wanted
            if ready:
                last = clock()
            elif clock() - last >= seconds:
                raise silent()
            wanted = waits.send(ready)
    except StopIteration as end:
        return end.value


def _watched(psycopg: Any, seconds: int) -> Any:
    """A kind of connection on which no statement waits for ever."""

    class Watched(psycopg.Connection):  # type: ignore[misc]
        def wait(self, waits: Any, *how: Any, **more: Any) -> Any:
            return super().wait(heard(waits, seconds, self.silent), *how, **more)

        def silent(self) -> Exception:
            self.close()  # otherwise it would be asked to roll back
            error: Exception = psycopg.OperationalError(
                f"the server has said nothing for {seconds} s (silence_seconds_max)"
            )
            return error

    return Watched


def _quoted(name: str) -> str:
    if not name.strip() or "\0" in name:
        raise ConfigError(
            "the name of the relation has an empty part", hint="Write schema.relation.", about="object"
        )
    return '"' + name.strip().strip('"').replace('"', '""') + '"'


def _psycopg() -> tuple[Any, Any]:
    """The driver, and the rule that every value is a text."""
    try:
        import psycopg
        from psycopg.adapt import AdaptersMap
        from psycopg.types.string import TextLoader
    except ImportError as error:
        raise ConfigError(
            f"the driver for PostgreSQL cannot be imported: {error}",
            hint="pip install 'calve[postgres]', on executors too.",
        ) from error
    adapters = AdaptersMap(types=psycopg.adapters.types)
    adapters.register_loader(0, TextLoader)
    return psycopg, adapters
