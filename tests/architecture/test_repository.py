"""The repository keeps its own rules: layers, purity, locks, and what no file may name."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.servers.known import KNOWN, NAMES_REFUSED
from tools import venvs
from tools.env import DEV_LOCK

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "calve"
SERVERS = ROOT / "tests" / "support" / "servers"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Joined here, so that this file does not name what it forbids.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "apache", "org"),
        ("maven", "org"),
        ("sonatype", "com"),
        ("sonatype", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("golang", "org"),
        ("anaconda", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("jitpack", "io"),
    )
]


def repository_files() -> list[Path]:
    """What git holds or would take in; in a copy without git, all that is not made by a tool."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if (ROOT / ".git").exists() and listed.returncode == 0:
        files = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    else:
        made = {"__pycache__", "build", "dist", "htmlcov", "site", "spark-warehouse"}
        files = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part in made or (part.startswith(".") and part != ".ci")
                for part in path.relative_to(ROOT).parts[:-1]
            )
        ]
    return [path for path in files if path.is_file()]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def modules(*rooms: str) -> Iterator[tuple[Path, ast.Module]]:
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield path, ast.parse(text_of(path), str(path))


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"calve_tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- what no file may say


def test_no_file_names_the_host_of_a_registry():
    pattern = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in REGISTRY_HOSTS), re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_the_locks_hold_no_address_at_all():
    for lock in sorted((ROOT / "requirements").iterdir()):
        assert "://" not in text_of(lock), lock.name


def test_the_package_puts_nothing_off():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if re.search(r"\b(TODO|FIXME|XXX)\b", line)
    ]
    assert found == []


# ---------------------------------------------------------------- locks


def pins(lock: str) -> dict[str, list[tuple[str, bool]]]:
    """Package name -> (version, has a hash), one for each pin: a universal lock may hold two."""
    found: dict[str, list[tuple[str, bool]]] = {}
    text = text_of(ROOT / "requirements" / lock).replace("\\\n", " ")
    for line in text.splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", line):
            found.setdefault(canonicalize_name(match[1]), []).append((match[2], "--hash=sha256:" in line))
    return found


def declared() -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    words = [
        *PROJECT["project"]["dependencies"],
        *itertools.chain.from_iterable(extras),
        *PROJECT["dependency-groups"]["dev"],
    ]
    return [Requirement(word) for word in words]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_the_lock_pins_what_pyproject_declares(requirement):
    pinned = pins("dev.lock").get(canonicalize_name(requirement.name), [])
    assert pinned, "run `make lock`"
    for version, _ in pinned:
        assert requirement.specifier.contains(version, prereleases=True), "run `make lock`"


@pytest.mark.parametrize("lock", ["dev.lock", "tools.lock", "spark.txt"])
def test_every_pin_has_a_hash(lock):
    found = pins(lock)
    assert found
    assert [name for name, versions in found.items() if not all(hashed for _, hashed in versions)] == []


@pytest.mark.parametrize(
    "lock", sorted((ROOT / "requirements").glob("jars*.txt")), ids=lambda lock: lock.name
)
def test_every_jar_has_a_hash(lock):
    found = load_tool("jars").read_lock(lock)
    assert found
    assert [jar.coordinates for jar in found if not re.fullmatch("[0-9a-f]{64}", jar.sha256)] == []


def test_a_lock_of_jars_has_sets_and_classifiers(tmp_path):
    lock = tmp_path / "jars.txt"
    lock.write_text(
        "g:a:1 sha256:00  # plain\n[rest]\ng:b:2:jar:tests sha256:11\ng:c:3:tar.gz:all sha256:22\n"
    )
    plain, in_set, packed = load_tool("jars").read_lock(lock)
    assert (plain.set_name, plain.coordinates, plain.file_name) == ("", "g:a:1", "a-1.jar")
    assert (in_set.set_name, in_set.coordinates, in_set.file_name) == (
        "rest",
        "g:b:2:jar:tests",
        "b-2-tests.jar",
    )
    assert (packed.coordinates, packed.file_name) == ("g:c:3:tar.gz:all", "c-3-all.tar.gz")


def test_every_package_of_npm_has_a_hash():
    packages = json.loads(text_of(ROOT / "requirements" / "package-lock.json"))["packages"]
    assert len(packages) > 1
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_what_servers_get_wrong_is_written_down_beside_them():
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text_of(SERVERS / "README.md"), re.MULTILINE)
    assert {(back_end, why) for (back_end, _), why in (KNOWN | NAMES_REFUSED).items()} <= set(rows)


def test_every_line_of_spark_that_the_package_allows_is_tested():
    extra = map(Requirement, PROJECT["project"]["optional-dependencies"]["spark"])
    (allowed,) = (one for one in extra if one.name == "pyspark")
    tested = [version for lock in ("dev.lock", "spark.txt") for version, _ in pins(lock)["pyspark"]]
    assert all(allowed.specifier.contains(version) for version in tested)
    lines = [f"4.{line}" for line in range(20) if allowed.specifier.contains(f"4.{line}.0")]
    assert sorted(version.rpartition(".")[0] for version in tested) == lines


def test_a_lock_is_cut_into_its_pins_without_loss():
    text = text_of(DEV_LOCK)
    found = venvs.pins(DEV_LOCK)
    assert text.endswith("".join(found.values()))
    assert set(found) == set(pins("dev.lock"))
    assert found["pyspark"].startswith("pyspark==")


# ---------------------------------------------------------------- layers


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    call = (
        "import sys; from importlinter.cli import lint_imports as f; sys.exit(f(no_cache=True, no_logo=True))"
    )
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        [sys.executable, "-c", call], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_the_rooms_keep_to_their_layers():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "room, line",
    [
        ("writer", "import calve.table"),
        ("table", "import calve.writer"),
        ("config", "import calve.store"),
        ("model", "import calve.protocol"),
        ("model", "import pydantic"),
        ("protocol", "import time"),
        ("protocol", "import pyarrow"),
        ("reader", "import calve.writer"),
        ("reader", "import pyiceberg.types"),
        ("writer", "import pyiceberg.types"),
        ("store", "import numpy as np"),
        ("attic", ""),
    ],
)
def test_an_import_that_breaks_the_layers_is_found(tmp_path, room, line):
    """The contracts themselves are checked: a contract that nothing can break guards nothing."""
    rooms = ["config", "decode", "model", "protocol", "reader", "store", "table", "writer"]
    for name in [*rooms, room]:
        (tmp_path / "src" / "calve" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / "calve" / name / "__init__.py").touch()
    (tmp_path / "src" / "calve" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if line:
        assert lint_imports(tmp_path).returncode == 0
    (tmp_path / "src" / "calve" / room / "__init__.py").write_text(line + "\n", encoding="utf-8")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_every_folder_of_the_package_is_a_package():
    """Coverage passes over a folder without `__init__.py`: untested modules in it would not count."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")} | {PACKAGE}
    bare = [folder for folder in folders if not (folder / "__init__.py").exists()]
    assert sorted(str(folder.relative_to(ROOT)) for folder in bare) == []


def test_model_imports_the_standard_library_alone():
    foreign = []
    for path, tree in modules("model"):
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            foreign += [
                f"{path.name}: {name}"
                for name in names
                if name.partition(".")[0] not in sys.stdlib_module_names
                and not f"{name}.".startswith("calve.model.")
            ]
    assert foreign == []


def test_model_and_protocol_read_no_clock_and_draw_no_chance():
    clocks = {"now", "utcnow", "today", "monotonic", "perf_counter", "time_ns", "uuid1", "uuid4", "urandom"}
    found = []
    for path, tree in modules("model", "protocol"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                name = getattr(function, "attr", None) or getattr(function, "id", None)
                if name in clocks:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {name}")
    assert found == []


# ---------------------------------------------------------------- groups of tests


def test_every_test_belongs_to_exactly_one_group():
    """A test that no group picks is never run; one that two pick runs twice."""
    check = load_tool("check")
    groups = check.expand(["all"], nightly=True)
    for chosen in itertools.product([False, True], repeat=len(check.MARKERS)):
        marks = dict(zip(check.MARKERS, chosen, strict=True))
        picked = [group for group in groups if eval(check.expression(group), {}, marks)]
        assert len(picked) == 1, (marks, picked)


def test_pytest_knows_the_markers_of_the_groups():
    check = load_tool("check")
    known = {marker.partition(":")[0] for marker in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert known == {*check.MARKERS, "nightly"}
