"""AWS logins: where they come from, and that they renew themselves."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import pytest

from calve import ConfigError
from calve.store import aws

KEYS = {"client.access-key-id": "AKIA1", "client.secret-access-key": "canary-1"}


@pytest.fixture(autouse=True)
def no_login_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "PROFILE",
        "REGION",
        "DEFAULT_REGION",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


class Sts(BaseHTTPRequestHandler):
    """AssumeRole that hands out a new key each time, good for a minute."""

    calls: list[dict[str, list[str]]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.calls.append(parse_qs(body) | {"login": [self.headers["Authorization"]]})
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)
        answer = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
            <Credentials><AccessKeyId>ASIA{len(self.calls)}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
            <SessionToken>t</SessionToken><Expiration>{until:%Y-%m-%dT%H:%M:%SZ}</Expiration></Credentials>
            <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/calve</Arn>
            <AssumedRoleId>x</AssumedRoleId></AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>""".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, list[str]]]]:
    class Handler(Sts):
        calls: list[dict[str, list[str]]] = []  # noqa: RUF012

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        yield Handler.calls
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "properties, key, region",
    [
        (KEYS, "AKIA1", None),
        (KEYS | {"glue.access-key-id": "AKIA2", "glue.secret-access-key": "s"}, "AKIA2", None),
        ({"aws_access_key_id": "AKIA3", "aws_secret_access_key": "s", "aws_region": "r3"}, "AKIA3", "r3"),
        (KEYS | {"client.region": "r1", "aws_region": "r3"}, "AKIA1", "r1"),
        (KEYS | {"client.region": "r1", "glue.region": "r2"}, "AKIA1", "r2"),
    ],
)
def test_a_name_of_the_service_wins_over_one_of_all_aws(
    properties: dict[str, str], key: str, region: str | None
) -> None:
    session = aws.session(properties, service="glue")
    assert (session.get_credentials().access_key, session.region_name) == (key, region)


def test_a_token_of_one_login_never_goes_with_the_key_of_another() -> None:
    properties = KEYS | {
        "client.session-token": "t",
        "glue.access-key-id": "A",
        "glue.secret-access-key": "s",
    }
    assert aws.session(properties, service="glue").get_credentials().token is None
    assert aws.session(properties).get_credentials().token == "t"


@pytest.mark.parametrize(
    "properties, missing",
    [
        ({"client.access-key-id": "A"}, "client.secret-access-key"),
        ({"glue.secret-access-key": "canary"} | KEYS, "glue.access-key-id"),
        ({"aws_session_token": "canary"}, "aws_access_key_id and aws_secret_access_key"),
    ],
)
def test_half_a_key_is_refused_by_name(properties: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigError, match=missing) as caught:
        aws.session(properties, service="glue")
    assert "canary" not in str(caught.value)


def test_environment_and_profile_are_boto3s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-1\n")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = AKIA9\naws_secret_access_key = s\n")
    work = aws.session({"client.profile-name": "work"})
    assert (work.get_credentials().access_key, work.region_name) == ("AKIA9", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA8")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert aws.session({}).get_credentials().access_key == "AKIA8"
    with pytest.raises(ConfigError, match="'play'"):
        aws.session({"client.profile-name": "play"})


def test_a_broken_configuration_file_is_named_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("canary without a section\n")
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        aws.session({"client.profile-name": "work"})
    assert "canary" not in str(caught.value)


def test_an_assumed_role_is_assumed_again_before_it_expires(sts: list[dict[str, list[str]]]) -> None:
    role = "arn:aws:iam::123456789012:role/writer"
    extra = {
        "client.role-session-name": "night",
        "client.role-external-id": "ours",
        "client.region": "eu-west-1",
    }
    session = aws.session(KEYS | {"client.role-arn": role} | extra)
    assert not sts, "nothing is asked before it is needed"
    credentials = session.get_credentials()
    assert session.region_name == "eu-west-1"
    keys = [credentials.get_frozen_credentials().access_key for _ in range(2)]
    assert keys == ["ASIA1", "ASIA2"], "a key that is good for a minute is not used for the next hour"
    assert sts[0]["RoleArn"] == [role]
    assert sts[0]["RoleSessionName"] == ["night"]
    assert sts[0]["ExternalId"] == ["ours"]
    assert "Credential=AKIA1/" in sts[0]["login"][0]


def test_an_assumed_role_is_not_replaced_by_the_environment(
    sts: list[dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA8")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    session = aws.session({"client.role-arn": "arn:aws:iam::1:role/r", "client.region": "eu-west-1"})
    assert session.get_credentials().get_frozen_credentials().access_key == "ASIA1"
    assert "Credential=AKIA8/" in sts[0]["login"][0]


def test_a_role_without_a_login_to_assume_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no AWS login"):
        aws.session({"client.role-arn": "arn:aws:iam::1:role/r"})


@pytest.mark.parametrize("role", ["writer", "arn:aws:iam::1:user/u", "arn:aws:iam::x:role/r"])
def test_a_role_that_is_not_one_is_refused(role: str) -> None:
    with pytest.raises(ConfigError, match="not the ARN of a role"):
        aws.session(KEYS | {"client.role-arn": role})


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="request-timeout"):
        aws.timeouts({"client.request-timeout": text}, attempts=1)


def test_every_call_has_a_timeout_and_as_many_attempts_as_it_was_given() -> None:
    config = aws.timeouts({"glue.request-timeout": "7.5"}, service="glue", attempts=1)
    assert (config.connect_timeout, config.read_timeout) == (aws.CONNECT_S, 7.5)
    assert config.retries == {"mode": "standard", "total_max_attempts": 1}


@pytest.mark.parametrize(
    "text", ["", "glue", "arn:aws:s3:::bucket", "arn:aws:glue:us-east-1", "arn:aws:glue:r:12x:catalog"]
)
def test_an_arn_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not an ARN of glue"):
        aws.Arn.parse(text, service="glue", example="arn:aws:glue:us-east-1:123456789012:catalog")


def test_an_arn_has_a_region_and_an_account() -> None:
    arn = aws.Arn.parse("arn:aws-cn:glue:cn-north-1:123456789:catalog", service="glue", example="")
    assert (arn.partition, arn.region, arn.account, arn.resource) == (
        "aws-cn",
        "cn-north-1",
        "123456789",
        "catalog",
    )
