"""Messages: what a task tells the coordinator, as rows of two text columns.

    kind   body (JSON)
    file         a FileClosed of the table
    quarantined  a FileClosed of the quarantine
    tied         changes that nothing decides between, by key and sequence: the job runs again without them
    settled      how many rows came that are in the quarantine already, by their kind
    refused      the place of a row that does not fit, and what to do: the job is given up
    counts       what became of the rows

Rows of data never go this way: a task sends a message a file, and one with its counts.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

import pyarrow as pa

from calve.model.errors import BadMessage, BadRow
from calve.model.file import FileClosed
from calve.writer.quarantine import from_stream, to_stream

SCHEMA = pa.schema([pa.field("kind", pa.string()), pa.field("body", pa.string())])
SPARK_SCHEMA = "kind string, body string"


@dataclass(slots=True)
class Counts:
    """What became of the rows of a task, or of all tasks of a micro-batch."""

    rows: int = 0
    replayed: int = 0
    late: int = 0
    quarantined: int = 0

    def add(self, other: Counts) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(frozen=True, slots=True)
class Report:
    """What a task, or all tasks of a job, said."""

    files: tuple[FileClosed, ...]
    quarantined: tuple[FileClosed, ...]
    counts: Counts
    refused: BadRow | None = None
    tied: pa.Table | None = None
    """Changes that nothing decides between, by key and sequence. Then there are no files: the job runs again,
    and these go to quarantine as they come."""
    settled: Mapping[int, int] = field(default_factory=dict)
    """By kind (settled.py), how many rows were left out because the quarantine has them."""

    @property
    def has_quarantined(self) -> bool:
        """Whether rows that do not fit came, which went to quarantine now or before."""
        return bool(self.quarantined or self.settled)

    def to_rows(self) -> Iterable[pa.RecordBatch]:
        """The messages of one task."""
        rows = [("file", file.to_json()) for file in self.files]
        rows += [("quarantined", file.to_json()) for file in self.quarantined]
        if self.tied is not None:
            rows.append(("tied", base64.b64encode(to_stream(self.tied)).decode()))
        if self.settled:
            rows.append(("settled", json.dumps(list(self.settled.items()))))
        if self.refused is not None:
            rows.append(("refused", json.dumps({"message": self.refused.message, "hint": self.refused.hint})))
        rows.append(("counts", json.dumps(asdict(self.counts))))
        kinds, bodies = zip(*rows, strict=True)
        yield pa.record_batch([pa.array(kinds, pa.string()), pa.array(bodies, pa.string())], schema=SCHEMA)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> Report:
        """What all tasks said."""
        files, quarantined, tied, counts, refused = [], [], [], Counts(), None
        settled: Counter[int] = Counter()
        for kind, body in rows:
            try:
                match kind:
                    case "file":
                        files.append(FileClosed.from_json(body))
                    case "quarantined":
                        quarantined.append(FileClosed.from_json(body))
                    case "tied":
                        tied.append(from_stream(base64.b64decode(body)))
                    case "settled":
                        settled.update(dict(json.loads(body)))
                    case "refused":
                        said = json.loads(body)
                        refused = refused or BadRow(said["message"], hint=said["hint"])
                    case "counts":
                        counts.add(Counts(**json.loads(body)))
                    case _:
                        raise ValueError("no such kind")
            except (KeyError, TypeError, ValueError) as error:
                raise BadMessage(
                    f"a task sent a message of kind {kind!r} that cannot be read: {error}",
                    hint="Executors run another release of calve than the driver: install the same one.",
                ) from error
        ties = pa.concat_tables(tied) if tied else None
        return cls(tuple(files), tuple(quarantined), counts, refused, ties, dict(settled))
