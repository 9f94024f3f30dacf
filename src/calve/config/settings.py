"""Settings: the base of every model here. Frozen, and with one kind of error whoever finds the fault.

Pydantic's own error is no part of our tree and keeps the input that it refused, secrets included. It never
leaves this module: its places and reasons become a ConfigError, raised after pydantic's is gone, so that
no `__context__` of a traceback leads back to it (P10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from calve.config.options.listing import KIND_OF_FIELD, OPTION_OF_FIELD
from calve.config.units import nearest
from calve.model.errors import ConfigError, UnknownOption

R = TypeVar("R")


class Settings(BaseModel):
    """A frozen model whose every fault is a CalveError."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        validate_default=False,
    )

    PLACE: ClassVar[str] = ""
    """Where this model stands inside a SinkConfig: `catalog.`, `parquet.`, or nowhere."""

    def __init__(self, **data: Any) -> None:
        _guarded(type(self), lambda: super(Settings, self).__init__(**data))

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        return _guarded(cls, lambda: super(Settings, cls).model_validate(obj, **options))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        return _guarded(cls, lambda: super(Settings, cls).model_validate_json(json_data, **options))

    def replace(self, **changes: Any) -> Self:
        """A copy with other values, checked as a new one is. What was left to defaults stays so."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | changes)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Pydantic's own copy does not check what changes; this one does."""
        return self.replace(**update) if update else super().model_copy(deep=deep)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ConfigError(
            f"{type(self).__name__}.{name} cannot be set: a configuration is frozen",
            hint=f"Make another one: config.replace({name}=…).",
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise ConfigError(
            f"{type(self).__name__}.{name} cannot be deleted: a configuration is frozen",
            hint="Make another one: config.replace(…).",
        )


def label(field: str) -> str:
    """A field with its option's name, so that both kinds of users find it."""
    option = OPTION_OF_FIELD.get(field, field)
    return field if option == field else f"{field} ('{option}')"


def _guarded(model: type[Settings], act: Callable[[], R]) -> R:
    try:
        return act()
    except ValidationError as error:
        failure = _as_config_error(model, error)
    raise failure


def _as_config_error(model: type[Settings], error: ValidationError) -> ConfigError:
    faults = error.errors(include_url=False, include_input=False)
    unknown = [str(fault["loc"][-1]) for fault in faults if fault["type"] == "extra_forbidden"]
    if unknown:
        name = unknown[0]
        near = nearest(name, tuple(model.model_fields))
        return UnknownOption(
            f"{model.__name__} has no {model.PLACE}{name}",
            hint=(f"Did you mean {near}? " if near else "") + f"It has {', '.join(model.model_fields)}.",
            about=model.PLACE + name,
        )
    reasons = [_reason(model.PLACE, fault) for fault in faults]
    return ConfigError(
        "; ".join(reasons),
        hint="docs/options.md says what each option takes.",
        about=_field(model.PLACE, faults[0]),
    )


def _reason(place: str, fault: ErrorDetails) -> str:
    message = fault["msg"]
    if not fault["loc"]:
        return f"the configuration cannot be read: {message}"
    field = _field(place, fault)
    limits = {word: fault.get("ctx", {}).get(name) for name, word in (("ge", "least"), ("le", "most"))}
    for word, limit in limits.items():
        if isinstance(limit, int):
            kind = KIND_OF_FIELD.get(field)
            return f"{label(field)} must be at {word} {limit if kind is None else kind.show(limit)}"
    return f"{label(field)}: {message[:1].lower()}{message[1:]}"


def _field(place: str, fault: ErrorDetails) -> str:
    return place + ".".join(map(str, fault["loc"]))
