"""Gather: the files of each batch, out of messages that may come twice or be resent after a restart.

A path names one file, written once: so messages are one by path. The same path with another content
is not a duplicate but a mix-up, and stops the sink before anything is committed (P3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from calve.model.batch import Batch
from calve.model.errors import BadMessage
from calve.model.file import FileClosed


def gather(messages: Iterable[FileClosed]) -> Mapping[Batch, tuple[FileClosed, ...]]:
    """Files by batch, in the batches' order, each file once."""
    by_path: dict[str, FileClosed] = {}
    for message in messages:
        known = by_path.setdefault(message.path, message)
        if known is not message and known.digest != message.digest:
            raise BadMessage(
                f"{message.path} was reported twice with different content",
                hint="Two workers wrote under one name, or a message was changed. Write the batch again.",
            )
    files: dict[Batch, list[FileClosed]] = {}
    for message in by_path.values():
        files.setdefault(message.batch, []).append(message)
    return {batch: tuple(files[batch]) for batch in sorted(files)}
