"""Tables of pages that are made from code: `python -m tools.pages` writes them, a test keeps them current.

    fields of dataclasses, with their docstrings ──▶ docs/metrics.md
    calve.table.readers                          ──▶ docs/readers.md, README.md
    calve.sql.options, calve.runtime.spark.view  ──▶ docs/sql.md

A page has a place for each: `<!-- made: name -->` … `<!-- end -->`. What stands between is replaced, the rest
of the page is written by people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calve.runtime.spark.view import REFUSED
from calve.sql import options
from calve.sql.options import Known, Listing
from calve.table.readers import READERS, Answer, Feature, Reader, Reads

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/metrics.md", "docs/readers.md", "docs/sql.md")
_PLACE = re.compile(r"(?<=<!-- made: )([a-z-]+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)

# What is counted stands in a field's name; these names say something else.
_UNITS = (
    (r"_ms$", "ms"),
    (r"(^|_)bytes(_|$)", "bytes"),
    (r"(^|_)files(_|$)", "files"),
    (r"(^|_)rows(_|$)", "rows"),
    (r"(^|_)batches(_|$)", "batches"),
    (r"(^|_)epochs(_|$)", "epochs"),
    (r"(^|_)(snapshots|segments|commits|conflicts|answers|flushes|errors)$", "count"),
    (r"^frontier$", "source time"),
    (r"(_id|generation|micro_batch)$", "number"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a dataclass, as its source tells it."""

    name: str
    type: str
    meaning: str

    @property
    def unit(self) -> str:
        if self.type.startswith("str"):
            return "text"
        if self.type == "bool":
            return "yes or no"
        return next(unit for pattern, unit in _UNITS if re.search(pattern, self.name))


def fields_of(module: str, name: str) -> list[Field]:
    """The fields of a dataclass in the order of its source. One without a docstring is an error."""
    body = _class(ROOT / module, name).body
    found = []
    for item, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not told:
                raise ValueError(f"{module}: {name}.{item.target.id} has no docstring")
            meaning = str(ast.literal_eval(after.value))  # type: ignore[union-attr]
            found.append(Field(item.target.id, ast.unparse(item.annotation), " ".join(meaning.split())))
    return found


def _class(path: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(path.read_text("utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def metrics_table(module: str, name: str) -> str:
    """Every field of a dataclass, its unit and its meaning."""
    told = ((f"`{one.name}`", one.unit, one.meaning) for one in fields_of(module, name))
    return _rows(("field", "unit", "meaning"), told)


def _said(answer: Answer) -> str:
    return answer.note if answer.note and answer.reads is not Reads.RIGHT else answer.reads.value


def readers_table(*held: Feature) -> str:
    """Readers with the same answers in one line, and what they say of each feature."""
    together: dict[tuple[str, ...], list[Reader]] = {}
    for reader in READERS:
        together.setdefault(tuple(_said(reader.answers[one]) for one in held), []).append(reader)
    heads = ("reader", *(one.value for one in held))
    return _rows(heads, ((", ".join(map(str, who)), *said) for said, who in together.items()))


def remarks() -> str:
    """Where readers err beside that."""
    return "".join(f"- **{reader}.** {reader.remark}\n" for reader in READERS if reader.remark)


def options_table(*listings: Listing) -> str:
    """Options of a statement, by the names that a person writes."""
    return _rows(("option", "meaning"), (_option(one) for listing in listings for one in listing))


def _option(one: Known) -> tuple[str, str]:
    also = ", ".join(f"`{name.upper()}`" for name in one.also if name.islower())
    return f"`{one.name.upper()}`", f"{one.meaning} Also {also}." if also else one.meaning


def refused_table() -> str:
    """What a view cannot be, and in which modes."""
    return _rows(("a view that …", "over changes", "in append mode"), REFUSED)


MADE: Mapping[str, Callable[[], str]] = {
    "progress": lambda: metrics_table("src/calve/runtime/spark/progress.py", "SinkProgress"),
    "metrics": lambda: metrics_table("src/calve/runtime/health.py", "SinkMetrics"),
    "readers": lambda: readers_table(*Feature),
    "readers-of-today": lambda: readers_table(*(one for one in Feature if one is not Feature.VECTORS)),
    "remarks": remarks,
    "sql-catalog": lambda: options_table(options.CATALOG),
    "sql-aws": lambda: options_table(options.AWS),
    "sql-kafka": lambda: options_table(options.KAFKA),
    "sql-postgres": lambda: options_table(options.POSTGRES),
    "sql-files": lambda: options_table(
        options.IN_FILES[:1], (options.FORMAT, options.FILES_MAX, options.HEADER)
    ),
    "sql-changefeed": lambda: options_table(options.COCKROACHDB),
    "sql-topic": lambda: options_table(options.ON_KAFKA, (options.OTHER_COLUMNS,)),
    "sql-debezium": lambda: options_table(options.OF_DEBEZIUM),
    "sql-materialize": lambda: options_table(options.MATERIALIZE),
    "sql-stream": lambda: options_table(options.STREAM),
    "sql-refused": refused_table,
}


def made(text: str) -> str:
    """A page with its tables as the code is now."""
    return _PLACE.sub(lambda place: place[1] + place[2] + "\n" + MADE[place[1]]() + "\n", text)


def main() -> None:
    for name in PAGES:
        page = ROOT / name
        page.write_text(made(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
