"""Asked: the options of a statement, each taken once, by the names that the statement knows.

Guarantee: an option is used or refused, with its place and the nearest one; none is passed over. A secret is
read where it is needed, from the variable or file that its statement names, and is in no tree and no error
(P10).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calve.config.units import nearest, parse_bool
from calve.model.errors import CalveError
from calve.sql.defined import Definitions, kind_of
from calve.sql.grammar import refused
from calve.sql.pointed import at_statement
from calve.sql.tree import (
    CreateConnection,
    CreateSink,
    CreateSinkTable,
    CreateSource,
    Option,
    Secret,
    Target,
    named,
)

_TOLD_MAX = 25
"""So many options a person may read in a hint."""

WithOptions = CreateConnection | CreateSource | CreateSink | CreateSinkTable


class Asked:
    """The options of a statement, until all are taken."""

    def __init__(
        self,
        statement: WithOptions,
        definitions: Definitions,
        known: Mapping[str, str],
        *,
        dotted: tuple[str, ...] = (),
        meaning: str,
    ) -> None:
        """`known`: names, and the one under which each is taken; `dotted`: how other names may begin;
        `meaning`: what the options are of, for errors."""
        self._statement, self._definitions = statement, definitions
        self._left: dict[str, Option] = {}
        for option in statement.options:
            name = known.get(option.name)
            if name is None and option.name.startswith(dotted) and "." in option.name:
                name = option.name
            if name is None:
                raise self._refused(
                    f"{meaning} has no option {_shown(option.name)}", option, _hint(option.name, known)
                )
            if name in self._left:
                raise self._refused(
                    f"{_shown(option.name)} says again what {_shown(self._left[name].name)} says",
                    option,
                    "Leave one of the two out.",
                )
            self._left[name] = option

    def text(self, name: str) -> str | None:
        """The value of an option, or of the secret that it names."""
        option = self._left.pop(name, None)
        if option is None:
            return None
        if isinstance(option.value, Secret):
            with at_statement(self._statement, about=option.name):
                return self._secret(option.value.name)
        return option.value.value

    def is_secret(self, name: str) -> bool:
        """Whether an option names a secret, and is not taken yet."""
        option = self._left.get(name)
        return option is not None and isinstance(option.value, Secret)

    def needed(self, name: str, example: str) -> str:
        """The value of an option that cannot be left out."""
        value = self.text(name)
        if value is None:
            raise refused(
                f"the {kind_of(self._statement)} {self._statement.name!r} has no {_shown(name)}",
                self._statement.text,
                self._statement.at,
                f"Write {example}.",
            )
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between."""
        value = self.text(name)
        return None if value is None else tuple(one.strip() for one in value.split(",") if one.strip())

    def flag(self, name: str) -> bool | None:
        value = self.text(name)
        with at_statement(self._statement, about=name):
            return None if value is None else parse_bool(value, _shown(name))

    def path(self, name: str) -> str | None:
        """A place; a folder that is not absolute begins at that of the pipeline."""
        value = self.text(name)
        return None if value is None else place(value, self._definitions.folder)

    def connection(self, name: str, target: Target) -> CreateConnection | None:
        """The connection that an option names."""
        option = self._left.pop(name, None)
        if option is None:
            return None
        if isinstance(option.value, Secret):
            raise self._refused(f"{_shown(name)} is a name, not a secret", option, "Leave SECRET out.")
        return self._definitions.connection(named(option.value), target, self._statement, option.at)

    def rest(self) -> dict[str, str]:
        """All that is left, by name."""
        return {name: value for name in list(self._left) if (value := self.text(name)) is not None}

    def refuse(self, name: str, reason: str, hint: str) -> None:
        """Refuse an option, if it was given."""
        if name in self._left:
            raise self._refused(reason, self._left[name], hint)

    def _secret(self, name: str) -> str:
        return self._definitions.reveal(self._definitions.secrets[name])

    def _refused(self, reason: str, option: Option, hint: str) -> CalveError:
        return refused(reason, self._statement.text, option.at, hint)


def place(path: str, folder: Path) -> str:
    """A folder or a URI; what is not absolute begins at `folder`."""
    if "://" in path or path.startswith(("/", "file:", "arn:")):
        return path
    return str(folder / path)


def _hint(name: str, known: Mapping[str, str]) -> str:
    """The nearest name; and all that there are, each by the first of its names, where a person may read
    them."""
    near = nearest(name, [*known])
    first = {to: one for one, to in reversed([*known.items()])}
    told = ", ".join(sorted(map(_shown, first.values())))
    rest = f"It has {told}." if len(first) <= _TOLD_MAX else "docs/sql.md lists all."
    return f"Did you mean {_shown(near)}? {rest}" if near else rest


def _shown(name: str | None) -> str:
    """An option as a person writes it."""
    text = name or ""
    return f"'{text}'" if "." in text else text.upper()
