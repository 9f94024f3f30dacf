"""A checkpoint's folder in memory, which a process may leave in the middle of anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from calve.model.errors import StoreError


class Died(BaseException):
    """The process is gone. No `except` of the product may stop it."""


@dataclass(slots=True)
class MemoryFiles:
    """Small files by name. After `writes_left` more changes the process dies: the change that would be the
    next one does not happen."""

    texts: dict[str, str] = field(default_factory=dict)
    writes_left: int | None = None
    log: list[str] = field(default_factory=list)

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write_new(self, name: str, text: str) -> None:
        self._change(f"write {name}")
        if name in self.texts:
            raise StoreError(f"{name} is already there", hint="Another run writes here.")
        self.texts[name] = text

    def names(self, folder: str) -> list[str]:
        inside = (name.removeprefix(f"{folder}/") for name in self.texts if name.startswith(f"{folder}/"))
        return sorted({name.partition("/")[0] for name in inside})

    def delete(self, name: str) -> None:
        self._change(f"delete {name}")
        self.texts = {
            known: text
            for known, text in self.texts.items()
            if known != name and not known.startswith(f"{name}/")
        }

    def again(self, writes_left: int | None = None) -> MemoryFiles:
        """The same folder, as the next process finds it."""
        return MemoryFiles(dict(self.texts), writes_left)

    def _change(self, what: str) -> None:
        if self.writes_left is not None:
            if not self.writes_left:
                raise Died(what)
            self.writes_left -= 1
        self.log.append(what)
