"""Secrets: where a statement says that one is kept, and what is read there when it is needed.

What is read goes into an object that hides it, and into no error (P10).
"""

from __future__ import annotations

import os
from pathlib import Path

from calve.model.errors import ConfigError
from calve.sql.tree import CreateSecret, Kept


def read_secret(secret: CreateSecret, folder: Path) -> str:
    """What a secret holds."""
    if secret.kept is Kept.ENV:
        value = os.environ.get(secret.place)
        if not value:
            raise ConfigError(
                f"the secret {secret.name!r} is kept in the variable {secret.place}, which is "
                f"{'not set' if value is None else 'empty'}",
                hint=f"Set {secret.place}, and export it, in the shell that starts calve.",
            )
        return value
    path = folder / secret.place
    try:
        value = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(
            f"the secret {secret.name!r} is kept in the file {path}, which cannot be read: {reason}",
            hint="Write it there, readable for whoever runs calve and for nobody else.",
        ) from None
    if not value:
        raise ConfigError(
            f"the secret {secret.name!r} is kept in the file {path}, which is empty",
            hint="Write it there, in one line.",
        )
    return value
