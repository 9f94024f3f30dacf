"""Secrets: values that work and never show (P10).

    'catalog.prop.token' = 'abc' ──hide_property──▶ Hidden ──str, repr, dump──▶ '***'
                                                      └──────reveal()────────▶ 'abc'

Guarantee: a Hidden shows its secret in nothing but `reveal`, which only the door to a catalog or a store
calls. Which properties are secret is decided the safe way round: a property's value is shown only where
its name is known to be harmless, so a secret under a name that nobody foresaw is hidden too. What libraries
underneath say in their errors goes through `Secrets.redact`.

Not here: who may read a secret, and where it comes from.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote, quote_plus, unquote
from weakref import WeakValueDictionary

from calve.model.errors import ConfigError

MASK = "***"
V = TypeVar("V")

# The last parts of property names whose values may be shown, and the names in a URI's query.
# fmt: off
_HARMLESS = frozenset({
    "anonymous", "aws-endpoint", "aws-endpoint-url", "aws-region", "connect-timeout", "echo", "endpoint",
    "endpoint-url", "force-virtual-addressing", "init-catalog-tables", "path-style-access", "pool-pre-ping",
    "prefix", "profile-name", "py-io-impl", "region", "request-timeout", "role-arn", "role-session-name",
    "scope", "signer", "ssl", "sslmode", "thrift-uri", "timeout",
})
_HARMLESS_IN_URI = frozenset({
    "application_name", "charset", "connect_timeout", "mode", "ref", "region", "ssl", "sslmode", "timeout",
})
# fmt: on
_SECRET_NAME = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|signature|\bsig\b|\bsas\b|(?:access|private|api|account|shared)-?key"
    r"|connection-?string|\bauth|\bjaas\b|(?:key-?store|ssl)[.-]key$"
)
_USERINFO = re.compile(
    r"(?:(?P<scheme>[A-Za-z][\w+.:-]*://)|(?![A-Za-z][\w+.:-]*://))(?P<userinfo>[^/].*)@", re.DOTALL
)
_CONTAINER_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})  # container@account is no login
_ROLE_SCHEMES = ("postgres", "mysql")  # a user without a password is a role's name, not a token
# What is stars already stays as wide as it is: in the text of a pipeline a caret may stand below.
_IN_TEXT = (
    (re.compile(r"(\w://)(?!\*+@)[^\s/@'\"]+@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{16,}"), rf"\1 {MASK}"),
    (
        re.compile(
            r"(?i)((?:passw\w*|pwd|secret[\w.-]*|[\w.-]*token|credential|[\w-]*signature|\bsig)=)"
            r"(?!env:\w|file:/|\*+[\s&,;'\")}])[^\s&,;'\")}]+"  # how a URL says where a secret is kept
        ),
        rf"\1{MASK}",
    ),
)
_SHORT = 4
_PIECE = 8
_TRIVIAL = frozenset({"", "true", "false", "none"})


class Hidden:
    """Text of which only a masked form shows."""

    __slots__ = ("__weakref__", "_parts", "_shown", "_value")

    def __init__(self, value: str, shown: str = MASK, parts: tuple[str, ...] | None = None) -> None:
        self._value = value
        self._shown = shown
        self._parts = (value,) if parts is None else parts
        _ALIVE[id(self)] = self

    def reveal(self) -> str:
        """The text itself. For the door that needs it, never for a message."""
        return self._value

    @property
    def parts(self) -> Secrets:
        """What of it must never show in a text."""
        return Secrets(self._parts)

    @property
    def is_secret(self) -> bool:
        return self._shown != self._value

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return repr(self._shown)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Hidden:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Hidden:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle is read by whoever finds it: beside a checkpoint, in a queue, in a crash report.
        if self.is_secret:
            raise _not_pickled()
        return (Hidden, (self._value, self._shown, self._parts))


_ALIVE: WeakValueDictionary[int, Hidden] = WeakValueDictionary()
"""By identity: of two that are equal, each may outlive the other."""


class FrozenMap(Mapping[str, V], Generic[V]):
    """A mapping that cannot change, so that a frozen configuration is frozen all through."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> V:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


class Secrets:
    """Known secrets, to be taken out of texts that others wrote."""

    __slots__ = ("_pattern", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(value for value in values if value.strip().lower() not in _TRIVIAL)
        forms = sorted(
            {form for value in self._values for form in _forms(value)}, key=lambda form: (-len(form), form)
        )
        self._pattern = re.compile("|".join(map(_search_for, forms))) if forms else None

    def __or__(self, other: Secrets) -> Secrets:
        return Secrets(self._values | other._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<{len(self)} secrets>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise _not_pickled()

    def redact(self, text: str) -> str:
        """The text without the known secrets, and without what looks like one in any text."""
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        for pattern, replacement in _IN_TEXT:
            text = pattern.sub(replacement, text)
        return text


def live_secrets() -> Secrets:
    """The secrets of all configurations that are in use now. For a text of which nobody knows whose it is,
    such as a traceback."""
    return Secrets(part for one in list(_ALIVE.values()) if one.is_secret for part in one._parts)


def redact(text: str, secrets: Secrets | None = None) -> str:
    """The text without secrets: the known ones, and logins in URIs, tokens in headers, `password=…`."""
    return (secrets or Secrets()).redact(text)


def hide_property(name: str, value: str) -> Hidden:
    """A property of a catalog or a store: shown only where its name is known to be harmless."""
    if name.lower().replace("_", "-").rpartition(".")[2] in _HARMLESS:
        return hide_uri(value)
    parts = {value, *_pieces(value), *(value.split(":") if "credential" in name.lower() else ())}
    return Hidden(_not_masked(value, name), MASK, tuple(sorted(parts)))


def hide_uri(uri: str, what: str = "uri") -> Hidden:
    """A URI that shows neither its login nor what its query carries."""
    _not_masked(uri, what)
    match = _USERINFO.match(uri)
    parts: set[str] = set()
    shown, rest = "", uri
    if match is not None:
        userinfo, scheme = match["userinfo"], match["scheme"] or ""
        _, colon, password = userinfo.partition(":")
        if colon or not scheme.startswith(_ROLE_SCHEMES):
            parts |= {userinfo, password if colon else userinfo}
        shown, rest = f"{scheme}{MASK}@", uri[match.end() :]
    pieces = re.split(r"([?&;#])", rest)
    shown += pieces[0]
    for mark, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        name, equals, value = piece.partition("=")
        if piece and not (equals and name.lower() in _HARMLESS_IN_URI):
            parts.add(value if equals else piece)
            piece = f"{name}={MASK}" if equals else MASK
        shown += mark + piece
    return Hidden(uri, shown, tuple(sorted(parts | {unquote(part) for part in parts})))


def refuse_secrets(location: str, what: str) -> str:
    """The location itself, if it carries no login: the table's metadata shows it to everybody."""
    scheme, _, rest = location.partition("://")
    host, _, path = rest.partition("/")
    login, at, _ = host.rpartition("@")
    named = {piece.partition("=")[0] for piece in re.split(r"[?&;#]", rest)[1:] if "=" in piece}
    if (
        (at and (":" in login or scheme.lower() not in _CONTAINER_SCHEMES))
        or ("@" in path and re.search(r":(?![0-9]+$)", host))  # a password with a slash in it
        or any(map(is_secret_name, named))
    ):
        raise ConfigError(
            f"the {what} carries a login or a key, and would be written into the table's metadata",
            hint="Give the place alone, such as s3://bucket/folder, and the login as 'storage.…' options.",
        )
    return location


def carries_login(uri: str) -> bool:
    """Whether a value is a URI with a password, a token or a key in it. The name of a role is none."""
    match = _USERINFO.match(uri)
    if match is not None:
        scheme = (match["scheme"] or "").lower().removesuffix("://")
        is_name = not scheme or scheme in _CONTAINER_SCHEMES or scheme.startswith(_ROLE_SCHEMES)
        if ":" in match["userinfo"] or not is_name:
            return True
    pieces = re.split(r"[?&;#]", uri)[1:] if "://" in uri else ()
    return any(is_secret_name(name) for name, equals, _ in (one.partition("=") for one in pieces) if equals)


def is_secret_name(name: str) -> bool:
    """Whether a property of this name is likely to carry a secret."""
    return _SECRET_NAME.search(name.lower().replace("_", "-")) is not None


def _not_pickled() -> ConfigError:
    return ConfigError(
        "a configuration that carries a secret cannot be pickled",
        hint="Build the configuration in the process that uses it, from its own environment.",
    )


def _not_masked(value: str, what: str) -> str:
    if MASK in value:
        raise ConfigError(
            f"{what} holds {MASK}, which stands for a secret that was masked",
            hint="A configuration that was printed or dumped has lost its secrets: give the secret again.",
        )
    return value


def _pieces(value: str) -> Iterator[str]:
    """What a library may quote of a value: the token of `Bearer …`, the key of `Name=…;AccountKey=…`."""
    for segment in re.split(r"[\s;,&]+", value):
        name, _, rest = segment.partition("=")
        piece = rest if name.isalnum() and rest.strip("=") else segment
        if len(piece) >= _PIECE:
            yield piece


def _forms(value: str) -> set[str]:
    """How a library may spell a value in its messages."""
    encoded = value.encode(errors="surrogatepass")
    return {
        value,
        quote(encoded, safe=""),
        quote_plus(encoded),
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        base64.b64encode(encoded).decode(),
    }


def _search_for(form: str) -> str:
    # A very short secret is taken out only where it stands alone: otherwise no text would stay readable.
    return re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
