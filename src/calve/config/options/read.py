"""Options ──▶ the arguments of a SinkConfig.

Guarantee: every option is either used or refused by name; none is skipped. An unknown one is answered with
the nearest right one; those that are missing are named all at once. A value is shown in an error only where
its option cannot carry a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.config.options.listing import NOT_YET, OPTION_OF_FIELD, OPTIONS, REQUIRED, Option
from calve.config.units import nearest
from calve.model.errors import ConfigError, UnknownOption, about

_BY_NAME = {option.name: option for option in OPTIONS if option.prefix is None}
_BY_PREFIX = {option.prefix: option for option in OPTIONS if option.prefix is not None}


def read_options(options: Mapping[str, object]) -> dict[str, Any]:
    """The arguments of a SinkConfig that a mapping of options asks for."""
    found = [(name, _option_of(name), value) for name, value in options.items()]
    missing = [name for name in REQUIRED if name not in options]
    if missing:
        raise ConfigError(
            f"{' and '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing",
            hint="Give at least 'namespace' and 'table.name'; docs/options.md lists all options.",
        )
    arguments: dict[str, Any] = {}
    for name, option, value in found:
        with about(name):
            parsed = option.kind.parse(value, f"the option '{name}'")
            if name == "file.format":
                _check_format(str(parsed))
        if option.prefix is not None:
            _put(arguments, option.field, {name.removeprefix(option.prefix): parsed})
        elif option.field:
            _put(arguments, option.field, parsed)
    return arguments


def _option_of(name: object) -> Option:
    if not isinstance(name, str):
        raise ConfigError(f"the name of an option is a {type(name).__name__}", hint="Option names are text.")
    if name in NOT_YET:
        raise ConfigError(
            f"the option '{name}' is not there yet",
            hint="Leave it out, and run the table's maintenance with another engine.",
            about=name,
        )
    if name in _BY_NAME:
        return _BY_NAME[name]
    for prefix, option in _BY_PREFIX.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return option
    near = _nearest_option(name)
    raise UnknownOption(
        f"there is no option '{name[:80]}'",
        hint=f"Did you mean '{near}'?" if near else "docs/options.md lists all options.",
        about=name,
    )


def _nearest_option(name: str) -> str | None:
    if name in OPTION_OF_FIELD:  # the Python name of a setting
        return OPTION_OF_FIELD[name]
    segments = name.split(".")
    prefixed = [prefix + ".".join(segments[prefix.count(".") :]) for prefix in _BY_PREFIX]
    return nearest(name.lower().replace("_", "."), [*_BY_NAME, *prefixed])


def _check_format(file_format: str) -> None:
    if file_format != "parquet":
        raise ConfigError(
            f"the option 'file.format' is '{file_format}', which calve does not write",
            hint="Leave it out or say 'parquet': every engine that reads Iceberg reads it.",
        )


def _put(arguments: dict[str, Any], field: str, value: Any) -> None:
    *rooms, last = field.split(".")
    for room in rooms:
        arguments = arguments.setdefault(room, {})
    if isinstance(value, dict):
        arguments.setdefault(last, {}).update(value)
    else:
        arguments[last] = value
