"""Logins of a pipeline that a real server refuses, as a person reads it: the whole text, and no secret.

SeaweedFS is catalog and store in one, and checks both logins. Nothing was made when it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from tests.support.servers.seaweedfs import KEY, REGION, SECRET, SeaweedFS

pytestmark = pytest.mark.servers

PIPELINE = """
CREATE SECRET login FROM ENV 'CALVE_LOGIN';
CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rest', URI = '{rest}', WAREHOUSE = 's3://tbl', {login});
CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders') KEY (id);
CREATE SINK s FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders');
"""


@dataclass(frozen=True)
class Case:
    """A login, and what is said of it."""

    login: str
    secret: str
    error: str


REFUSED = """\
error CALVE-501 (AccessDenied): the catalog at REST refuses the login: invalid_client: Invalid client \
credentials
hint: Look at credential, token, or user and password: a token may have expired, and a secret may have been \
changed. For OAuth2 look at scope, audience and oauth2-server-uri too.
"""
DENIED = """\
error CALVE-501 (AccessDenied): the catalog denies access to shop.orders: {}
hint: The sink needs the rights to read and to commit to the table, and a login that is still good: a token \
may have expired. Its files are kept; start again when the right is there.
"""
CASES = {
    "a wrong secret": Case("CREDENTIAL = SECRET login", f"{KEY}:canary-of-a-wrong-secret", REFUSED),
    "an unknown client": Case("CREDENTIAL = SECRET login", f"nobody:{SECRET}", REFUSED),
    "a wrong token": Case(
        "TOKEN = SECRET login",
        "canary-of-a-wrong-token",
        DENIED.format("NotAuthorizedException: Bearer token is invalid or expired"),
    ),
    "no login": Case("SCOPE = 'x'", "-", DENIED.format("ForbiddenException: Access Denied.")),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    return tmp_path


def said(words: list[str], case: Case, server: SeaweedFS) -> tuple[str, int]:
    Path("pipeline.sql").write_text(PIPELINE.format(rest=server.rest_uri, login=case.login), "utf-8")
    env = {"CALVE_DEBUG": None, "NO_COLOR": "1", "CALVE_LOGIN": case.secret}
    done = CliRunner().invoke(app, words, env=env)
    return done.output.replace(server.rest_uri, "REST").replace(server.s3_uri, "S3"), done.exit_code


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", CASES)
def test_a_login_that_the_catalog_refuses_is_told_in_full(seaweedfs: SeaweedFS, name: str) -> None:
    case = CASES[name]
    for command in ("status", "history"):
        text, code = said([command, "pipeline.sql"], case, seaweedfs)
        assert text == case.error
        assert code == 1
        assert "canary-of-" not in text


@pytest.mark.usefixtures("here")
def test_a_key_that_the_store_refuses_is_told_by_the_doctor(seaweedfs: SeaweedFS) -> None:
    keys = f"ACCESS KEY ID = '{KEY}', SECRET ACCESS KEY = 'canary-of-a-wrong-key', REGION = '{REGION}'"
    login = f"CREDENTIAL = SECRET login, {keys}, ENDPOINT = '{seaweedfs.s3_uri}'"
    case = Case(login, f"{KEY}:{SECRET}", "")
    text, code = said(["doctor", "pipeline.sql", "--no-spark"], case, seaweedfs)
    lines = text.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("  failed "))
    assert lines[failed].startswith("  failed   store             the store denies to write s3://tbl/")
    assert "SignatureDoesNotMatch" in lines[failed]
    assert lines[failed + 1].strip() == (
        "→ Look at the login of the store (storage.…), and whether it has the rights to read and write "
        "there. Nothing of this batch was committed; its files are kept."
    )
    assert code == 1
    assert "canary-of-" not in text
