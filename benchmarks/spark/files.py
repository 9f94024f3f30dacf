"""Files of a large append: every one but a task's last is within 10 % of the target size."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from benchmarks.figure import Figure, at_most
from benchmarks.place import scratch
from benchmarks.spark import data, ours
from benchmarks.spark.session import spark_session

_FILES = 8
_ROWS_A_FILE = {"numbers": 1_500_000, "words": 100_000, "wide": 75_000}
_TARGET_BYTES = 16 * 1024 * 1024


def run(quick: bool) -> list[Figure]:
    target = 64 * 1024 if quick else _TARGET_BYTES
    figures = []
    with scratch() as folder, spark_session(folder) as session:
        for shape, rows in _ROWS_A_FILE.items():
            source = data.write_files(
                folder / "source" / shape, data.SHAPES[shape], _FILES, rows // 100 if quick else rows
            )
            schema = session.read.parquet(str(source[0])).schema
            options = {"target.file.size": str(target)}
            stream = ours.stream(session, folder, shape, schema, options=options)
            stream.round(source)
            stream.stop()
            figures.append(_figure(shape, ours.table_folder(folder, shape), target))
    return figures


def _figure(shape: str, folder: Path, target: int) -> Figure:
    tasks: dict[Path, list[Path]] = defaultdict(list)
    for file in sorted(folder.rglob("data-*.parquet")):
        tasks[file.parent].append(file)
    full = [file.stat().st_size / target for files in tasks.values() for file in files[:-1]]
    return Figure(
        f"files of a large append, {shape}: farthest from the target of {target / 1024**2:.3g} MB",
        100 * max(abs(size - 1) for size in full),
        "%",
        at_most(10, "%"),
        note=f"{len(tasks)} tasks, {len(full)} full files: {min(full):.2f} to {max(full):.2f} of it",
    )
