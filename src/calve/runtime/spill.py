"""The spill folder: where an epoch goes that is larger than memory, and whether anything can go there.

A folder that the user named is tried out when the sink is opened: a mistake in its name is not left for the
first epoch that is too large. The system's own is taken on trust, because most sinks never need it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from calve.config.settings import label
from calve.config.sink import SinkConfig
from calve.model.errors import ConfigError


def spill_folder(config: SinkConfig) -> Path:
    """Where spilled rows of this sink go."""
    if config.spill_folder is not None:
        return Path(config.spill_folder)
    return Path(tempfile.gettempdir()) / f"calve-spill-{os.getuid()}"


def check_spill_folder(config: SinkConfig) -> None:
    """Refuse a spill folder that cannot be made or written to. Nothing is made: most sinks never need it."""
    if config.spill_folder is None:
        return
    folder = spill_folder(config).absolute()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(
            f"{label('spill_folder')}: nothing can be written to {folder}: {error.strerror or error}",
            hint="Name a folder that this user may write to, with room for the largest epoch.",
        ) from error
