"""The door to Glue: which one is meant, what is sent how often, and what each failure to open says."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from calve import CatalogConfig, CatalogError, ConfigError
from calve.model.errors import AccessDenied, BadName, TableDiffers
from calve.store import aws
from calve.table.catalogs import glue, open_catalog

SECRET = "canary-of-glue-41aa"
LOGIN = {"client.access-key-id": "AKIA1", "client.secret-access-key": SECRET}
ARN = "arn:aws:glue:eu-west-1:123456789:catalog"
TEN_SECONDS = 10.0

Answers = dict[str, tuple[int, Any]]


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


class FakeGlue:
    """Answers each operation with what it was told, and keeps what it was asked."""

    def __init__(self, answers: Answers) -> None:
        self.answers: Answers = {"GetDatabases": (200, {"DatabaseList": []}), **answers}
        self.asked: list[tuple[str, dict[str, Any], str]] = []

    def operations(self) -> list[str]:
        return [operation for operation, _, _ in self.asked]

    def handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                operation = self.headers["X-Amz-Target"].removeprefix("AWSGlue.")
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append((operation, body, self.headers["Authorization"]))
                status, told = fake.answers[operation]
                answer = told if isinstance(told, bytes) else json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        return Handler


Serving = Callable[..., tuple[FakeGlue, str]]


@pytest.fixture
def serving() -> Iterator[Serving]:
    servers: list[tuple[ThreadingHTTPServer, Thread]] = []

    def serve(**answers: tuple[int, Any]) -> tuple[FakeGlue, str]:
        fake = FakeGlue(answers)
        server = ThreadingHTTPServer(("127.0.0.1", 0), fake.handler())
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return fake, f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def refusal(code: str, message: str = "m") -> tuple[int, dict[str, str]]:
    return 400, {"__type": code, "message": message}


def opened(endpoint: str, uri: str | None = ARN, **properties: str) -> Catalog:
    said = {"glue.endpoint": endpoint, **LOGIN, **properties}
    return open_catalog(CatalogConfig(type="glue", uri=uri, warehouse="/w", properties=said))


# -- which Glue


def test_region_and_catalog_id_come_from_the_arn(serving: Serving) -> None:
    fake, endpoint = serving()
    opened(endpoint)
    _, body, login = fake.asked[0]
    assert body["CatalogId"] == "123456789"
    assert "/eu-west-1/glue/" in login


@pytest.mark.parametrize(
    "said, region",
    [
        ({"aws_region": "eu-west-1"}, "eu-west-1"),
        ({"client.region": "eu-west-2", "aws_region": "eu-west-1"}, "eu-west-2"),
        ({"glue.region": "eu-west-3", "client.region": "eu-west-2"}, "eu-west-3"),
    ],
)
def test_without_an_arn_the_region_is_a_property(serving: Serving, said: dict[str, str], region: str) -> None:
    fake, endpoint = serving()
    opened(endpoint, None, **said, **{"glue.id": "77"})
    assert fake.asked[0][1]["CatalogId"] == "77"
    assert f"/{region}/glue/" in fake.asked[0][2]


def test_keys_may_have_the_names_of_object_stores(serving: Serving) -> None:
    fake, endpoint = serving()
    said = {"aws_access_key_id": "AKIA7", "aws_secret_access_key": SECRET, "glue.endpoint": endpoint}
    open_catalog(CatalogConfig(type="glue", uri=ARN, warehouse="/w", properties=said))
    assert "Credential=AKIA7/" in fake.asked[0][2]


def test_the_region_of_a_bucket_is_not_that_of_the_catalog(serving: Serving) -> None:
    fake, endpoint = serving()
    said = {"glue.endpoint": endpoint, **LOGIN}
    config = CatalogConfig(
        type="glue", uri=ARN, warehouse="/w", properties=said, storage={"aws_region": "us-east-1"}
    )
    open_catalog(config)
    assert "/eu-west-1/glue/" in fake.asked[0][2]


def test_a_catalog_inside_another_has_its_path_in_its_id() -> None:
    told = glue.located("arn:aws:glue:us-east-1:1:catalog/s3tablescatalog/bucket", {})
    assert told == {"glue.region": "us-east-1", "glue.id": "1:s3tablescatalog/bucket"}


@pytest.mark.parametrize(
    "uri",
    ["https://glue.eu-west-1.amazonaws.com", "arn:aws:glue:eu-west-1:1:table/a/b", "arn:aws:glue::1:catalog"],
)
def test_a_uri_that_is_not_the_arn_of_a_catalog_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"not .*ARN") as caught:
        opened("http://127.0.0.1:1", uri)
    assert "arn:aws:glue:us-east-1:123456789012:catalog" in caught.value.hint


@pytest.mark.parametrize("name, value", [("glue.region", "r"), ("aws_region", "r"), ("glue.id", "5")])
def test_an_arn_that_properties_contradict_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="says"):
        opened("http://127.0.0.1:1", **{name: value})


# -- what is sent


def table(location: str = "file:///w/t/metadata/00000-a.metadata.json") -> dict[str, Any]:
    parameters = {"table_type": "ICEBERG", "metadata_location": location}
    return {"Table": {"DatabaseName": "ns", "Name": "t", "VersionId": "1", "Parameters": parameters}}


def test_what_changes_something_is_sent_once_and_what_reads_again(serving: Serving) -> None:
    slow = refusal("ThrottlingException")
    fake, endpoint = serving(UpdateTable=slow, GetTable=slow, CreateDatabase=slow)
    catalog = opened(endpoint)
    assert isinstance(catalog, glue.Glue)
    with pytest.raises(TooManyRequestsError):
        catalog.create_namespace("ns")
    with pytest.raises(catalog.glue.exceptions.ClientError):
        catalog._update_glue_table("ns", "t", {"Name": "t"}, "1")
    with pytest.raises(TooManyRequestsError):
        catalog.load_table("ns.t")
    assert fake.operations().count("CreateDatabase") == 1
    assert fake.operations().count("UpdateTable") == 1
    assert fake.operations().count("GetTable") == 3


@pytest.mark.parametrize(
    "answer, kind",
    [
        (refusal("AccessDeniedException"), ForbiddenError),
        (refusal("ExpiredTokenException"), UnauthorizedError),
        (refusal("EntityNotFoundException"), NoSuchTableError),
        (refusal("ConcurrentModificationException"), CommitFailedException),
        ((500, {"__type": "InternalServiceException", "message": "m"}), CommitStateUnknownException),
        ((503, b"<html>"), CommitStateUnknownException),
        ((200, b"<html>a captive portal</html>"), CommitStateUnknownException),
        ((200, b'{"Table": {"Data'), CommitStateUnknownException),
    ],
)
def test_what_glue_answers_is_told_in_known_words(
    serving: Serving, answer: tuple[int, Any], kind: type[Exception]
) -> None:
    _, endpoint = serving(GetTable=answer)
    with pytest.raises(kind):
        opened(endpoint).load_table("ns.t")


def test_a_success_that_is_none_of_glues_may_have_happened(serving: Serving) -> None:
    _, endpoint = serving(CreateDatabase=(200, b"<html>a captive portal</html>"))
    with pytest.raises(CommitStateUnknownException):
        opened(endpoint).create_namespace("ns")


def test_a_lost_answer_may_have_happened_and_is_not_waited_for_longer_than_said(serving: Serving) -> None:
    _, endpoint = serving()
    catalog = opened(endpoint, **{"glue.request-timeout": "0.2"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = catalog.glue.meta.config  # type: ignore[attr-defined]
        assert config.read_timeout == 0.2
        begun = time.monotonic()
        with pytest.raises(CatalogError, match="cannot be reached"):
            opened(f"http://127.0.0.1:{port}", **{"glue.request-timeout": "0.2"})
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("parameters", [{}, {"table_type": "HUDI"}, {"table_type": "ICEBERG"}])
def test_a_table_that_is_not_icebergs_is_named_as_such(serving: Serving, parameters: dict[str, str]) -> None:
    told = {"Table": {"DatabaseName": "ns", "Name": "t", "VersionId": "1", "Parameters": parameters}}
    _, endpoint = serving(GetTable=(200, told))
    with pytest.raises(TableDiffers, match="not Iceberg's"):
        opened(endpoint).load_table("ns.t")


def test_a_nested_namespace_is_refused_by_name(serving: Serving) -> None:
    _, endpoint = serving()
    catalog = opened(endpoint)
    for call in (catalog.load_table, catalog.drop_table):
        with pytest.raises(BadName, match=r"'a\.b'"):
            call(("a", "b", "t"))
    with pytest.raises(BadName, match=r"'a\.b'"):
        catalog.create_namespace(("a", "b"))


# -- what a failure to open says


@pytest.mark.parametrize(
    "code, kind, reason",
    [
        ("UnrecognizedClientException", AccessDenied, "does not accept"),
        ("InvalidSignatureException", AccessDenied, "does not accept"),
        ("ExpiredTokenException", AccessDenied, "ExpiredToken"),
        ("ThrottlingException", CatalogError, "Throttling"),
        ("Unheard", CatalogError, "refused the first request"),
    ],
)
def test_a_login_that_glue_does_not_take_is_said_when_it_is_opened(
    serving: Serving, code: str, kind: type[Exception], reason: str
) -> None:
    _, endpoint = serving(GetDatabases=refusal(code, f"the key {SECRET} is not good"))
    with pytest.raises(kind, match=reason) as caught:
        opened(endpoint)
    assert SECRET not in str(caught.value)


def test_a_login_without_the_right_to_list_is_enough(serving: Serving) -> None:
    _, endpoint = serving(GetDatabases=refusal("AccessDeniedException"))
    opened(endpoint)


def test_a_wrong_port_is_said_within_ten_seconds() -> None:
    begun = time.monotonic()
    with pytest.raises(CatalogError, match=r"Glue at http://127\.0\.0\.1:9 cannot be reached") as caught:
        opened("http://127.0.0.1:9")
    assert "glue.endpoint" in caught.value.hint
    assert time.monotonic() - begun < TEN_SECONDS


def test_a_server_that_never_answers_is_said_within_ten_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(CatalogError, match="cannot be reached: ReadTimeout"):
            opened(f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - begun < TEN_SECONDS


def test_a_region_that_nobody_knows_gets_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # no request leaves this machine
    config = CatalogConfig(
        type="glue", uri="arn:aws:glue:eu-wets-1:1:catalog", warehouse="/w", properties=LOGIN
    )
    with pytest.raises(CatalogError, match="Glue in eu-wets-1 cannot be reached") as caught:
        open_catalog(config)
    assert "Did you mean 'eu-west-1'?" in caught.value.hint


@pytest.mark.parametrize(
    "properties, reason",
    [
        (LOGIN, "no region"),
        ({"client.region": "eu-west-1"}, "no AWS login"),
        (LOGIN | {"client.region": "not a region"}, "cannot be"),
        (LOGIN | {"client.region": "eu-west-1", "glue.endpoint": "nonsense"}, "cannot be"),
        (LOGIN | {"client.region": "eu-west-1", "client.connect-timeout": "soon"}, "connect-timeout"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        open_catalog(CatalogConfig(type="glue", warehouse="/w", properties=properties))
    assert SECRET not in str(caught.value)


def test_the_first_request_has_less_time_than_ten_seconds() -> None:
    assert aws.CONNECT_S + aws.OPENING_S < TEN_SECONDS


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from calve import CatalogConfig, ConfigError
from calve.table.catalogs import open_catalog
try:
    open_catalog(CatalogConfig(type=sys.argv[2], uri=sys.argv[3], warehouse="/w"))
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "kind, uri, package, extra",
    [("glue", ARN, "boto3", "aws"), ("hive", "thrift://127.0.0.1:9", "thrift", "hive")],
)
def test_a_missing_extra_is_named(kind: str, uri: str, package: str, extra: str) -> None:
    command = [sys.executable, "-c", WITHOUT, package, kind, uri]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"not installed: {package}" in said
    assert f"calve[{extra}]" in said
