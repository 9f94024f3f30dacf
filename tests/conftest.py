"""Fixtures that tests of several rooms share. Engines start when a test first asks for them, once a process.

What a fixture needs is imported in it: a run of unit tests loads neither Spark nor the sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.golden import Golden
    from tests.support.lake import Lake
    from tests.support.readers import DuckReader, Reader, SailReader
    from tests.support.servers.azurite import Azurite
    from tests.support.servers.gcs import GoogleStorage
    from tests.support.servers.hive import Hive
    from tests.support.servers.iceberg_rest import IcebergRest
    from tests.support.servers.kafka import Kafka
    from tests.support.servers.ministack import Ministack
    from tests.support.servers.moto import Moto
    from tests.support.servers.seaweedfs import SeaweedFS

# A deadline fails on a busy machine and says nothing of the code.
settings.register_profile("calve", deadline=None, print_blob=True)
settings.load_profile("calve")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing them"
    )


@cache
def _spells(file: Path, words: str) -> bool:
    return "conformance" in file.parts or words in file.read_text("utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Markers of groups are spelt in the file of their tests, or come with the parameters of the conformance
    suite: `tools/check.py` looks for a group's tests there alone. Py4J leaves its sockets to the collector:
    thousands of lines that would hide all others."""
    for item in items:
        for group in ("docs", "servers", "spark", "engines"):
            if item.get_closest_marker(group) is not None and not _spells(item.path, f"mark.{group}"):
                raise pytest.UsageError(f"{item.nodeid}: write the marker {group!r} in the test's own file")
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One catalog and warehouse for a process; each test has tables of its own in it."""
    from tests.support.lake import Lake

    return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of this test module: exact texts."""
    from tests.support.golden import Golden

    return Golden(request.path.stem, update=request.config.getoption("--update-golden"))


@pytest.fixture
def table_name(request: pytest.FixtureRequest) -> str:
    """A table's name that no other test of the process has."""
    return re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, lake: Lake) -> Iterator[Any]:
    """The Spark session of this process; it knows the lake."""
    from tests.support.readers import know_lake
    from tests.support.spark import start_session

    session = start_session(tmp_path_factory.mktemp("spark"))
    know_lake(session, lake)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sail() -> Iterator[SailReader]:
    from tests.support.readers import sail_reader

    with sail_reader() as reader:
        yield reader


@pytest.fixture
def duckdb() -> Iterator[DuckReader]:
    from tests.support.readers import duck_reader

    with duck_reader() as reader:
        yield reader


@pytest.fixture
def readers(request: pytest.FixtureRequest, duckdb: DuckReader) -> list[Reader]:
    """What reads tables in a process with Spark: DuckDB, and Spark itself if Iceberg has a runtime for it."""
    from tests.support.readers import SparkReader
    from tests.support.spark import has_iceberg

    return [duckdb, SparkReader(request.getfixturevalue("spark"))] if has_iceberg() else [duckdb]


# ---------------------------------------------------------------- servers, once a process


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFS]:
    from tests.support.servers.seaweedfs import SeaweedFS

    with SeaweedFS() as server:
        yield server


@pytest.fixture(scope="session")
def iceberg_rest() -> Iterator[IcebergRest]:
    """Iceberg's own REST server, tables in a local folder."""
    from tests.support.servers.iceberg_rest import IcebergRest

    with IcebergRest() as server:
        yield server


@pytest.fixture(scope="session")
def iceberg_rest_s3(seaweedfs: SeaweedFS) -> Iterator[IcebergRest]:
    """The same, tables in a bucket of SeaweedFS; it hands out the login of the bucket."""
    from tests.support.servers.iceberg_rest import IcebergRest
    from tests.support.servers.seaweedfs import BUCKET, KEY, REGION, SECRET

    place = f"s3://{BUCKET}/warehouse"
    with IcebergRest.on_s3(place, seaweedfs.s3_uri, KEY, SECRET, REGION, vends=True) as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    from tests.support.servers.moto import Moto

    with Moto() as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[Ministack]:
    from tests.support.servers.ministack import Ministack

    with Ministack() as server:
        yield server


@pytest.fixture(scope="session")
def metastore() -> Iterator[Hive]:
    """A Hive metastore that drops the lock of a silent owner after four seconds."""
    from tests.support.servers.hive import Hive

    with Hive(lock_timeout_s=4) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    from tests.support.servers.azurite import Azurite

    with Azurite() as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[GoogleStorage]:
    from tests.support.servers.gcs import GoogleStorage

    with GoogleStorage() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A broker; each test has topics of its own in it."""
    from tests.support.servers.kafka import Kafka

    with Kafka() as server:
        yield server
