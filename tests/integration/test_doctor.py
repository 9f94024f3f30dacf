"""`calve doctor` on real ground: a server with real logins, Spark's own sessions, ports that are taken."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.seaweedfs import KEY, SECRET
from tests.support.spark import SETTINGS, jar_settings

WRONG = "canary-of-the-wrong-5f1b"


def calve(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "calve.cli.main", *words]
    return subprocess.run(call, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def checks(told: dict) -> dict[str, tuple[str, str, str]]:
    return {check["name"]: (check["outcome"], check["words"], check["hint"]) for check in told["checks"]}


def url(seaweedfs, secret: str = "env:STORE_SECRET") -> str:
    host = seaweedfs.rest_uri.removeprefix("http://")
    storage = {**seaweedfs.storage(), "s3.access-key-id": "env:STORE_KEY", "s3.secret-access-key": secret}
    query = "".join(f"&storage.{name}={value}" for name, value in storage.items())
    return f"iceberg://{host}/sales/orders?warehouse={seaweedfs.warehouse}&credential=env:LAKE{query}"


@pytest.mark.servers
def test_a_server_with_the_right_secret_passes(seaweedfs):
    env = {"LAKE": f"{KEY}:{SECRET}", "STORE_KEY": KEY, "STORE_SECRET": SECRET}
    ended = calve("doctor", url(seaweedfs), "--no-spark", "--json", **env)
    told = json.loads(ended.stdout)
    assert told["ok"], ended.stdout
    assert checks(told["catalog"])["store"][:2] == ("ok", "an object was written, read and deleted")
    assert ended.returncode == 0


@pytest.mark.servers
@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_wrong_secret_of_the_catalog_is_told_and_never_shown(seaweedfs, debug):
    """P10."""
    env = {"LAKE": f"{KEY}:{WRONG}", "STORE_KEY": KEY, "STORE_SECRET": SECRET, "CALVE_DEBUG": debug}
    ended = calve("doctor", url(seaweedfs), "--no-spark", **env)
    lines = ended.stdout.splitlines()
    at = next(n for n, one in enumerate(lines) if one.startswith("  failed"))
    assert [line.strip() for line in lines[at : at + 2]] == [
        f"failed   connect           the catalog at {seaweedfs.rest_uri} refuses the login: invalid_client: "
        "Invalid client credentials",
        "→ Look at credential, token, or user and password: a token may have expired, and a secret may have "
        "been changed. For OAuth2 look at scope, audience and oauth2-server-uri too.",
    ]
    assert "canary" not in ended.stdout + ended.stderr
    assert ended.returncode == 1


@pytest.mark.servers
def test_a_wrong_secret_of_the_store_is_told_and_never_shown(seaweedfs):
    """P10."""
    env = {"LAKE": f"{KEY}:{SECRET}", "STORE_KEY": KEY, "STORE_SECRET": WRONG}
    ended = calve("doctor", url(seaweedfs), "--no-spark", "--json", **env)
    found = checks(json.loads(ended.stdout)["catalog"])
    assert found["connect"][0] == "ok"
    outcome, words, hint = found["store"]
    assert outcome == "failed"
    assert words.startswith("the store denies to write s3://tbl/calve_doctor_")
    assert "SignatureDoesNotMatch" in words
    assert hint == (
        "Look at the login of the store (storage.…), and whether it has the rights to read and write there. "
        "Nothing of this batch was committed; its files are kept."
    )
    assert "canary" not in ended.stdout + ended.stderr
    assert ended.returncode == 1


@pytest.mark.servers
def test_a_command_with_a_wrong_secret_says_so_and_debug_shows_the_way_there_without_it(seaweedfs):
    """P10, case 58."""
    env = {"LAKE": f"{KEY}:{WRONG}", "STORE_KEY": KEY, "STORE_SECRET": SECRET}
    ended = calve("quarantine", "list", url(seaweedfs), **env)
    said = (
        f"error CALVE-501 (AccessDenied): the catalog at {seaweedfs.rest_uri} refuses the login: "
        "invalid_client: Invalid client credentials\n"
        "hint: Look at credential, token, or user and password: a token may have expired, and a secret may "
        "have been changed. For OAuth2 look at scope, audience and oauth2-server-uri too.\n"
    )
    assert (ended.stderr, ended.stdout, ended.returncode) == (said, "", 1)
    shown = calve("--debug", "quarantine", "list", url(seaweedfs), **env)
    assert "Traceback (most recent call last)" in shown.stderr
    assert shown.stderr.endswith(said)
    assert "canary" not in shown.stdout + shown.stderr
    told = calve("quarantine", "list", url(seaweedfs), "--json", **env)
    assert json.loads(told.stdout)["error"]["code"] == "CALVE-501"


def configured(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The environment of a Spark that is configured so."""
    folder.mkdir()
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text, "utf-8")
    return {"SPARK_CONF_DIR": str(folder), "TMPDIR": str(folder)}


@pytest.mark.spark
def test_a_real_session_starts_and_tells_which_jars_it_has(tmp_path):
    settings = {**SETTINGS, **jar_settings(), "spark.master": "local[1]"}
    env = configured(tmp_path / "conf", settings)
    ended = calve("doctor", "--json", **env)
    found = checks(json.loads(ended.stdout)["machine"])
    assert found["spark"][0] == "ok", ended.stdout
    assert "with master local[1] started, and a task ran in Python" in found["spark"][1]
    assert found["kafka"] == ("ok", "the session has the connector for Kafka", "")
    assert found["iceberg"][0] == "ok"
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [one.name for one in (tmp_path / "conf").iterdir()] == ["spark-defaults.conf"]


@pytest.mark.spark
def test_a_port_that_is_taken_is_told_with_what_to_set(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        port = {"spark.ui.port": str(number), "spark.port.maxRetries": "0"}
        settings = {**SETTINGS, "spark.master": "local[1]", "spark.ui.enabled": "true", **port}
        ended = calve("doctor", "--json", **configured(tmp_path / "conf", settings))
    found = checks(json.loads(ended.stdout)["machine"])
    outcome, words, hint = found["spark"]
    assert outcome == "failed"
    assert words == f"Spark does not work: its SparkUI cannot listen at port {number}, which is in use"
    assert hint == (
        "Another program listens there. Stop it, or let Spark take a free port: spark.ui.port=0 for SparkUI, "
        "spark.driver.port=0 for sparkDriver."
    )
    assert found["kafka"] == ("skipped", "not tried", "")
    assert ended.returncode == 1
