"""The errors of verdicts: what the table showed, and what the person can do."""

from __future__ import annotations

from calve.model.errors import CalveError, Diverged, Fenced, Gap, RolledBack, TableReplaced
from calve.model.progress import Progress
from calve.protocol.judge import Verdict


def refusal(
    verdict: Verdict, table: str, progress: Progress | None, *, lower: int, root: int | None = None
) -> CalveError:
    """The error that a verdict is; `root` is what main must descend from."""
    sink = "?" if progress is None else progress.sink_id
    match verdict:
        case Verdict.FENCED:
            assert progress is not None
            return Fenced(
                f"{table} was claimed by run {progress.writer} (generation {progress.generation}) of sink "
                f"{sink}",
                hint="This run stops and has changed nothing since. If it is the one that should go on, stop "
                "the other and start this one again.",
            )
        case Verdict.ROLLED_BACK:
            return RolledBack(
                f"main of {table} does not descend from snapshot {root}, the last commit of sink {sink}",
                hint="The table was rolled back or replaced. Set main to a snapshot that descends from "
                f"{root}, or, if the older state is wanted, start anew under another sink id.",
            )
        case Verdict.GAP:
            frontier = 0 if progress is None else progress.frontier
            return Gap(
                f"{table} ends at {frontier}, the next batch begins at {lower}: changes in between would be "
                "lost",
                hint=f"Deliver the changes from {frontier} on again.",
            )
        case Verdict.REPLACED:
            return TableReplaced(
                f"{table} is another table than the one this run opened (its uuid changed)",
                hint="It was dropped and created again. Start the sink again if that was meant.",
            )
        case _:
            return Diverged(
                f"the progress of sink {sink} in {table} contradicts this run, which goes on from {lower}",
                hint=f"Was the tag calve-{sink}, or with fence = 'main' the property calve.fence.{sink}, "
                "moved or removed by hand? Point it at the sink's last snapshot, then start again.",
            )
