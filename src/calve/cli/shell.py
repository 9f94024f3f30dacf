"""Shell: statements that a person types, one after the other, and what they are answered.

    a statement ──▶ answers.py ──▶ words, a table, a plan
    \\plan, \\run, \\save, \\help, \\quit ──▶ here

Spark is started by the first statement that needs it. An error ends the statement, and not the shell; so does
Ctrl-C.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from calve.cli import signals
from calve.cli.answers import Answers
from calve.cli.console import manner, note, show, tell
from calve.cli.pipeline import spark_session
from calve.cli.words import told
from calve.model.errors import ConfigError
from calve.sql.defined import Definitions
from calve.sql.read import read
from calve.sql.write import quoted, write

if TYPE_CHECKING:
    from calve.runtime.spark.job.job import Job

_HELP = """Statements end with a semicolon:
  CREATE SECRET | CONNECTION | SOURCE | VIEW | SINK …
  SHOW SECRETS | CONNECTIONS | SOURCES | VIEWS | SINKS
  SHOW CREATE SINK name, SHOW CHANGEFEED job, DESCRIBE name, EXPLAIN SINK name
  DROP … [KEEP PROGRESS]
Commands of the shell:
  \\plan       what all sinks would do to their tables
  \\run        run all sinks once, over what is there now
  \\save FILE  write what is defined as a pipeline
  \\help, \\quit; Tab completes a word, Ctrl-C leaves a line, Ctrl-D the shell"""


class Shell:
    """What is defined so far, and who answers."""

    def __init__(self, definitions: Definitions, settings: dict[str, str], stack: ExitStack) -> None:
        self._definitions = definitions
        self._settings = settings
        self._stack = stack
        self._started: Job | None = None
        self._answers = Answers(definitions, self._job)

    def answers_to(self, text: str) -> Iterator[object]:
        """Do statements one by one; each answer is printed, unless it goes to a program."""
        for statement in read(text):
            answer = self._answers.to(statement)
            if not manner().json:
                answer.show()
            yield answer.to_json()

    def talk(self) -> None:
        """Until Ctrl-D."""
        from calve.cli.typed import prompt_session

        session = prompt_session(self._names)
        note("Statements end with a semicolon; \\help tells more.")
        while True:
            try:
                text = session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if self._do(text.strip()):
                return

    def _do(self, text: str) -> bool:
        """What was typed; whether it is the end."""
        try:
            if text.startswith("\\"):
                return self._command(*text.partition(" ")[::2])
            for _ in self.answers_to(text):
                pass
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, and the shell goes on
            signals.patience()
            tell(told(error), error)
        return False

    def _command(self, word: str, rest: str) -> bool:
        """A command of the shell; whether it is the end."""
        match word.lower().rstrip(";"):
            case "\\q" | "\\quit" | "\\exit":
                return True
            case "\\help" | "\\h" | "\\?":
                show(_HELP)
            case "\\plan":
                for name in self._sinks():
                    for _ in self.answers_to(f"EXPLAIN SINK {quoted(name)}"):
                        pass
            case "\\run":
                self._run()
            case "\\save":
                self._save(rest.strip())
            case other:
                raise ConfigError(
                    f"the shell has no command {other}", hint="It has \\plan, \\run, \\save, \\help, \\quit."
                )
        return False

    def _run(self) -> None:
        from calve.cli.run import prepare_all, run_all
        from calve.cli.watching import show_ran

        names = self._sinks()
        ran, stopped = run_all(prepare_all(self._job(), names), once=True)
        show_ran(ran)
        if stopped is not None:
            raise KeyboardInterrupt

    def _sinks(self) -> list[str]:
        from calve.runtime.pipelines import check_apart

        names = list(self._definitions.sinks)
        if not names:
            raise ConfigError("no sink is defined", hint="CREATE SINK … FROM … INTO …;")
        check_apart(self._definitions, names)
        return names

    def _save(self, place: str) -> None:
        if not place:
            raise ConfigError("nothing says where to", hint="\\save pipeline.sql")
        file = Path(place)
        known = self._definitions
        every = (known.secrets, known.connections, known.relations, known.sinks)
        text = "\n".join(f"{write(one)};\n" for kind in every for one in kind.values())
        try:
            # For its owner alone: a person may have written a secret as it is.
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(
                f"{file} is there already", hint="Name another file; this one stays as it is."
            ) from None
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        show(f"{file} defines what is defined here.")

    def _job(self) -> Job:
        if self._started is None:
            from calve.runtime.machine import check_spark

            check_spark()
            from calve.runtime.spark.job.job import Job

            self._started = Job(self._definitions, self._stack.enter_context(spark_session(self._settings)))
        return self._started

    def _names(self) -> list[str]:
        known = self._definitions
        return [*known.secrets, *known.connections, *known.relations, *known.sinks]
