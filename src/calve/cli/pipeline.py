"""What the commands over a pipeline share: the file, the sinks that are meant, and a session of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calve.cli.console import manner, working
from calve.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calve.runtime.spark.job.job import Job
    from calve.sql.defined import Definitions

FILE = "pipeline.sql"

File = Annotated[Path, typer.Argument(metavar="FILE", help="The statements of the pipeline.")]
Sinks = Annotated[
    list[str] | None, typer.Option("--sink", help="This sink alone; may be given several times.")
]
Master = Annotated[str | None, typer.Option(help="Spark's master; local[*] where nothing is said.")]
Conf = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark's.")]
Packages = Annotated[str | None, typer.Option(help="Maven coordinates, with commas between.")]
Jars = Annotated[str | None, typer.Option(help="Files of jars, with commas between.")]


def read_file(file: Path, *, understood: bool = False) -> Definitions:
    """What a pipeline defines. `understood`: what none of its sinks needs must mean something, too."""
    from calve.sql.defined import Definitions
    from calve.sql.understood import understand_all

    try:
        text = file.read_text("utf-8")
    except OSError as error:
        near = sorted(one.name for one in Path().glob("*.sql"))
        raise ConfigError(
            f"the pipeline {file} cannot be read: {error.strerror}",
            hint=f"Here is {', '.join(near)}." if near else "`calve init` writes one.",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"the pipeline {file} is no text in UTF-8", hint="Save it as UTF-8.") from None
    found = Definitions.of_text(text, file.absolute().parent)
    if understood:
        understand_all(found)
    return found


def sinks_of(definitions: Definitions, named: list[str] | None, file: Path) -> list[str]:
    """The sinks that are meant."""
    for name in named or ():
        definitions.sink(name)
    names = list(named or definitions.sinks)
    if not names:
        raise ConfigError(f"{file} defines no sink", hint="Write CREATE SINK … FROM … INTO ….")
    return names


def sinks_to_run(definitions: Definitions, named: list[str] | None, file: Path) -> list[str]:
    """The same, if they can run side by side."""
    from calve.runtime.pipelines import check_apart

    names = sinks_of(definitions, named, file)
    check_apart(definitions, names)
    return names


def settings_of(
    master: str | None, conf: list[str] | None, packages: str | None, jars: str | None
) -> dict[str, str]:
    """What was said of Spark."""
    said = {"spark.master": master, "spark.jars.packages": packages, "spark.jars": jars}
    for one in conf or ():
        name, equals, value = one.partition("=")
        if not equals or not name.startswith("spark."):
            raise ConfigError(
                f"--conf {name[:60]!r} is no setting of Spark's",
                hint="Write --conf spark.executor.memory=4g.",
            )
        said[name] = value
    return {name: value for name, value in said.items() if value is not None}


@contextmanager
def job(definitions: Definitions, settings: dict[str, str]) -> Iterator[Job]:
    """The pipeline on Spark, for a while."""
    from calve.runtime.machine import check_spark

    check_spark()
    from calve.runtime.spark.job.job import Job

    with spark_session(settings) as spark:
        yield Job(definitions, spark)


@contextmanager
def spark_session(settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session, and a word to who waits until it has started."""
    from calve.runtime.spark.launch import session

    with ExitStack() as stack:
        with working("Spark starts …"):
            spark = stack.enter_context(session(settings, log=not manner().debug))
        yield spark
