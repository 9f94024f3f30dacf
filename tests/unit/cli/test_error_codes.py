"""Codes of errors: programs stand on them, so that none ever changes, and none means two things."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import calve
from calve.cli.pages.errors import errors_page, listed
from calve.model.error import CalveError

FROZEN = {
    "CALVE-000": "CalveError",
    "CALVE-100": "ConfigError",
    "CALVE-101": "UnknownOption",
    "CALVE-102": "BadName",
    "CALVE-103": "BadPartition",
    "CALVE-104": "BadColumns",
    "CALVE-105": "BadKey",
    "CALVE-106": "OtherWord",
    "CALVE-200": "BadStatement",
    "CALVE-300": "BadRow",
    "CALVE-301": "Tied",
    "CALVE-310": "SchemaMismatch",
    "CALVE-320": "BadTime",
    "CALVE-321": "BadBatch",
    "CALVE-322": "BadMessage",
    "CALVE-400": "TableError",
    "CALVE-401": "TableMissing",
    "CALVE-402": "TableReplaced",
    "CALVE-403": "TableDiffers",
    "CALVE-404": "RolledBack",
    "CALVE-405": "Diverged",
    "CALVE-406": "ForeignRows",
    "CALVE-407": "CatalogWithoutTags",
    "CALVE-408": "SnapshotMissing",
    "CALVE-409": "Unreadable",
    "CALVE-500": "CatalogError",
    "CALVE-501": "AccessDenied",
    "CALVE-510": "CommitConflict",
    "CALVE-511": "CommitUnknown",
    "CALVE-600": "StoreError",
    "CALVE-601": "FileMissing",
    "CALVE-700": "BrokerError",
    "CALVE-701": "RegistryError",
    "CALVE-702": "Overcompacted",
    "CALVE-703": "Gap",
    "CALVE-800": "SinkState",
    "CALVE-801": "Fenced",
    "CALVE-802": "PremiseBroken",
    "CALVE-890": "DemoFailed",
    "CALVE-891": "NotKilled",
    "CALVE-900": "BadUsage",
    "CALVE-901": "PackageMissing",
    "CALVE-910": "MachineFailed",
    "CALVE-911": "SparkFailed",
    "CALVE-920": "Interrupted",
    "CALVE-921": "Ended",
    "CALVE-990": "Defect",
}
"""A line may be added, and none changed: somebody's program asks for it."""


@pytest.fixture(scope="module")
def kinds() -> list[type[CalveError]]:
    """Every error of the package, wherever it is defined."""
    for module in pkgutil.walk_packages(calve.__path__, "calve."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, waiting = [], [CalveError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("calve."):
            found.append(kind)
    return found


def test_codes_never_change_and_every_error_has_its_own(kinds):
    assert dict(sorted((kind.code, kind.__name__) for kind in kinds)) == FROZEN
    assert len(kinds) == len(FROZEN), "two errors have one code"


def test_no_error_has_the_code_or_the_advice_of_another_one(kinds):
    for kind in kinds:
        assert {"code", "advice"} <= vars(kind).keys(), f"{kind.__name__} has them from another class"
        assert re.fullmatch(r"CALVE-\d{3}", kind.code)
        assert kind.advice.endswith("."), kind


def test_the_page_lists_every_error(kinds):
    assert {*listed(), CalveError} == set(kinds), "name its module in calve/cli/pages/errors.py"


def test_the_page_of_errors_is_up_to_date():
    page = Path(__file__).parents[3] / "docs" / "errors.md"
    assert page.read_text("utf-8") == errors_page(), "run: python -m calve.cli.pages errors > docs/errors.md"
