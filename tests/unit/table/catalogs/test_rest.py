"""The door to REST servers: logins, timeouts, what is sent twice, and what a mistake is told as."""

from __future__ import annotations

import json
import pickle
import socket
import ssl
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from botocore.exceptions import CredentialRetrievalError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ForbiddenError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.types import LongType, NestedField
from requests import RequestException
from requests.exceptions import TooManyRedirects

from calve.config.catalog import CatalogConfig
from calve.model.errors import AccessDenied, CalveError, CatalogError, ConfigError, StoreError
from calve.table.catalogs import open_catalog
from calve.table.catalogs.rest import Rest, uuid7
from calve.table.commit import load
from calve.table.fileio import access_of
from calve.table.location import table_root
from tests.support.http import Answer, Asked, Said, Scripted, scripted

SECRET = "canary-4f9a17c2"
METADATA = new_table_metadata(
    Schema(NestedField(1, "id", LongType(), required=True), schema_id=0),
    UNPARTITIONED_PARTITION_SPEC,
    UNSORTED_SORT_ORDER,
    "s3://bucket/ns/t",
)
TABLE = {
    "metadata-location": "s3://bucket/ns/t/metadata/00000.metadata.json",
    "metadata": json.loads(METADATA.model_dump_json()),
}


def rest(uri: str, **properties: str) -> Catalog:
    return open_catalog(CatalogConfig(type="rest", uri=uri, properties=properties))


def table(catalog: Catalog) -> Table:
    return catalog.load_table(("ns", "t"))


def commit(catalog: Catalog) -> None:
    one = table(catalog)
    catalog.commit_table(one, (AssertTableUUID(uuid=one.metadata.table_uuid),), ())


class TokenServer:
    """Tokens with numbers; only the last one is good."""

    def __init__(self, life_seconds: int | None = 3600, config: dict[str, Any] | None = None) -> None:
        self.given = 0
        self.good: str | None = None
        self.life, self.config = life_seconds, config or {}

    def __call__(self, asked: Asked) -> Said:
        if asked.path.endswith("/oauth/tokens"):
            if asked.form.get("client_secret") != SECRET:
                return Said(
                    401, {"error": "invalid_client", "error_description": f"no {asked.form['client_secret']}"}
                )
            self.given += 1
            self.good = f"token-{self.given}"
            answer = {"access_token": self.good, "token_type": "bearer"}
            return Said(200, answer if self.life is None else answer | {"expires_in": self.life})
        if asked.login != f"Bearer {self.good}":
            return Said(401, {"error": {"message": "expired", "type": "NotAuthorizedException", "code": 401}})
        if "/v1/config" in asked.path:
            return Said(200, {"defaults": {}, "overrides": {}, **self.config})
        return Said(200, TABLE)


# -- logins ----------------------------------------------------------------------------------------


def test_client_credentials_are_sent_with_scope_audience_and_resource() -> None:
    words = {"scope": "lake:write", "audience": "lake", "resource": "urn:lake"}
    with scripted(TokenServer()) as server:
        table(rest(server.uri, credential=f"ana:{SECRET}", **words))
    (first, *_) = server.asked_for("/oauth/tokens")
    assert (
        first.form
        == {"grant_type": "client_credentials", "client_id": "ana", "client_secret": SECRET} | words
    )


def test_a_token_comes_from_the_server_that_is_named_for_it() -> None:
    tokens = TokenServer()
    with scripted(tokens) as elsewhere, scripted(tokens) as server:
        table(
            rest(
                server.uri,
                credential=f"ana:{SECRET}",
                **{"oauth2-server-uri": f"{elsewhere.uri}/oauth/tokens"},
            )
        )
    assert elsewhere.asked_for("/oauth/tokens")
    assert not server.asked_for("/oauth/tokens")


def test_a_token_is_renewed_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenServer(life_seconds=100)
    with scripted(tokens) as server:
        catalog = rest(server.uri, credential=f"ana:{SECRET}")
        manager = catalog._auth_manager  # type: ignore[attr-defined]
        now = time.monotonic()
        given = tokens.given
        for later, wanted in ((0, 0), (80, 0), (95, 1), (96, 1)):
            monkeypatch.setattr(manager, "_ticks", lambda later=later: now + later)
            table(catalog)
            assert tokens.given - given == wanted
    assert all(asked.login != "Bearer None" for asked in server.asked)


def test_case_26_a_401_in_the_middle_is_sent_again_under_a_new_token() -> None:
    tokens = TokenServer(config={"idempotency-key-lifetime": "PT30M"})
    with scripted(tokens) as server:
        catalog = rest(server.uri, credential=f"ana:{SECRET}")
        one = table(catalog)
        tokens.good = "revoked"
        catalog.commit_table(one, (), ())
    posts = [asked for asked in server.asked_for("/tables/t") if asked.method == "POST"]
    assert len(posts) == 2
    assert posts[0].login != posts[1].login
    assert posts[0].body == posts[1].body
    assert posts[0].headers["idempotency-key"] == posts[1].headers["idempotency-key"], (
        "one request, twice on the way"
    )


def test_a_bearer_token_that_expired_is_refused_with_what_to_do() -> None:
    with scripted(TokenServer()) as server, pytest.raises(AccessDenied, match="refuses the login") as caught:
        rest(server.uri, token=SECRET)
    assert "expired" in caught.value.hint
    assert SECRET not in str(caught.value)


def test_p10_what_a_server_repeats_of_a_secret_is_not_shown() -> None:
    with scripted(TokenServer()) as server, pytest.raises(AccessDenied) as caught:
        rest(server.uri, credential="ana:wrong-canary-11c")
    assert "invalid_client" in caught.value.message
    assert "wrong-canary" not in str(caught.value)


@pytest.mark.parametrize(
    "properties, wanted",
    [
        ({"user": "ana", "password": "pw"}, "Basic YW5hOnB3"),
        ({"auth.type": "basic", "auth.basic.username": "ana", "auth.basic.password": "pw"}, "Basic YW5hOnB3"),
        ({"token": "abcdef"}, "Bearer abcdef"),
        ({}, None),
    ],
)
def test_each_login_is_sent_as_its_kind(properties: dict[str, str], wanted: str | None) -> None:
    with scripted(lambda _: Said(200, {"defaults": {}, "overrides": {}})) as server:
        rest(server.uri, **properties)
    assert server.asked[0].login == wanted


def test_headers_of_a_user_go_with_every_request() -> None:
    with scripted(TokenServer()) as server:
        table(rest(server.uri, credential=f"ana:{SECRET}", **{"header.X-Tenant": "blue"}))
    assert {asked.headers.get("x-tenant") for asked in server.asked if "oauth" not in asked.path} == {"blue"}


def test_a_login_that_is_half_there_is_refused_before_anything_is_sent() -> None:
    with scripted(lambda _: Said(200)) as server:
        for properties in ({"user": "ana"}, {"auth.type": "oauth2"}, {"auth.type": "magic"}):
            with pytest.raises(ConfigError):
                rest(server.uri, **properties)
    assert server.asked == []


def test_requests_are_signed_for_the_region_and_the_service() -> None:
    keys = {"client.access-key-id": "AKIDEXAMPLE", "client.secret-access-key": SECRET}
    signing = {"rest.sigv4-enabled": "true", "rest.signing-name": "glue", "rest.signing-region": "eu-west-1"}
    with scripted(lambda _: Said(200, {"defaults": {}, "overrides": {}})) as server:
        rest(server.uri, **keys, **signing)
    login = server.asked[0].login or ""
    assert login.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/glue/aws4_request" in login


# -- TLS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def _serve(ca: trustme.CA, name: str, *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        ca.configure_trust(context)
    return context


@pytest.fixture
def bundle(ca: trustme.CA, tmp_path: Path) -> str:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


def _config(_: Asked) -> Said:
    return Said(200, {"defaults": {}, "overrides": {}})


def test_a_private_ca_is_trusted_where_it_is_named(ca: trustme.CA, bundle: str) -> None:
    with scripted(_config, _serve(ca, "127.0.0.1")) as server:
        rest(server.uri, **{"ssl.cabundle": bundle})
        with pytest.raises(CatalogError, match="not trusted") as caught:
            rest(server.uri)
        assert "ssl.cabundle" in caught.value.hint


def test_a_certificate_of_another_host_is_refused(ca: trustme.CA, bundle: str) -> None:
    with (
        scripted(_config, _serve(ca, "lake.example.org")) as server,
        pytest.raises(CatalogError, match="not trusted"),
    ):
        rest(server.uri, **{"ssl.cabundle": bundle})


def test_a_client_shows_its_certificate_where_the_server_wants_one(
    ca: trustme.CA, bundle: str, tmp_path: Path
) -> None:
    mine = ca.issue_cert("ana@example.org")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "mine.pem")
    mine.private_key_pem.write_to_path(tmp_path / "mine.key")
    shown = {"ssl.client.cert": str(tmp_path / "mine.pem"), "ssl.client.key": str(tmp_path / "mine.key")}
    with scripted(_config, _serve(ca, "127.0.0.1", wants_client=True)) as server:
        rest(server.uri, **{"ssl.cabundle": bundle, **shown})
        with pytest.raises(CatalogError):
            rest(server.uri, **{"ssl.cabundle": bundle})


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("ssl.cabundle", "ssl.client.cert"):
        with pytest.raises(ConfigError, match=f"'{name}'.*nothing.pem"):
            rest("https://127.0.0.1:1", **{name: str(tmp_path / "nothing.pem")})


# -- what is sent twice ----------------------------------------------------------------------------


def _answering(post: Answer, config: dict[str, Any] | None = None) -> Callable[[Asked], Said]:
    def answer(asked: Asked) -> Said:
        if "/v1/config" in asked.path:
            return Said(200, {"defaults": {}, "overrides": {}, **(config or {})})
        return Said(200, TABLE) if asked.method == "GET" else post(asked)

    return answer


@pytest.mark.parametrize(
    "said, error",
    [
        (Said(None), RequestException),
        (Said(200, b'{"metadata-loc'), ValueError),
        (Said(200, b"<html>"), ValueError),
        (Said(409), CommitFailedException),
        (Said(500), CommitStateUnknownException),
        (Said(502), CommitStateUnknownException),
        (Said(504), CommitStateUnknownException),
        (Said(403), ForbiddenError),
        (Said(401), Exception),
        (Said(429), Exception),
        (Said(503), Exception),
    ],
)
def test_a_commit_is_sent_once_whatever_is_answered(said: Said, error: type[Exception]) -> None:
    with scripted(_answering(lambda _: said)) as server:
        with pytest.raises(error):
            commit(rest(server.uri))
        assert len([asked for asked in server.asked if asked.method == "POST"]) == 1


def test_case_22_an_answer_that_never_comes_is_given_up() -> None:
    done = threading.Event()

    def never(_: Asked) -> Said:
        done.wait(30)
        return Said(None)

    with scripted(_answering(never)) as server:
        started = time.monotonic()
        with pytest.raises(RequestException):
            commit(rest(server.uri, **{"rest.timeout-ms": "300"}))
        assert time.monotonic() - started < 5
        done.set()
        assert len([asked for asked in server.asked if asked.method == "POST"]) == 1


def test_a_look_is_tried_again_when_the_connection_breaks() -> None:
    broken = iter([Said(None)])

    def answer(asked: Asked) -> Said:
        if "/tables/" in asked.path:
            return next(broken, Said(200, TABLE))
        return _config(asked)

    with scripted(answer) as server:
        assert table(rest(server.uri)).metadata.location == "s3://bucket/ns/t"


def test_an_idempotency_key_is_sent_where_the_server_knows_it() -> None:
    for config, wanted in (({}, False), ({"idempotency-key-lifetime": "PT30M"}, True)):
        with scripted(_answering(lambda _: Said(200, TABLE), config)) as server:
            catalog = rest(server.uri)
            commit(catalog)
            commit(catalog)
        keys = [asked.headers.get("idempotency-key") for asked in server.asked if asked.method == "POST"]
        assert [key is not None for key in keys] == [wanted, wanted]
        assert not wanted or (len({*keys}) == 2 and all(uuid.UUID(key).version == 7 for key in keys))


def test_keys_follow_the_clock() -> None:
    made = [uuid7() for _ in range(100)]
    assert len({*made}) == 100
    assert made[0].variant == uuid.RFC_4122
    assert abs((made[0].int >> 80) / 1000 - time.time()) < 60


def test_several_tables_are_one_request() -> None:
    endpoints = {"endpoints": ["POST /v1/{prefix}/transactions/commit", "GET /v1/{prefix}/namespaces"]}
    with scripted(_answering(lambda _: Said(204, b""), endpoints)) as server:
        catalog = rest(server.uri)
        assert isinstance(catalog, Rest)
        assert catalog.commits_many
        need = AssertTableUUID(uuid=METADATA.table_uuid)
        catalog.commit_tables([(("ns", "a"), (need,), ()), (("ns", "b"), (need,), ())])
    (sent,) = server.asked_for("/transactions/commit")
    changes = json.loads(sent.body)["table-changes"]
    assert [change["identifier"]["name"] for change in changes] == ["a", "b"]
    assert changes[0]["requirements"] == [{"type": "assert-table-uuid", "uuid": str(METADATA.table_uuid)}]


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location, root",
    [
        ("s3://b/t", "s3://b/t"),
        ("s3://b/t/metadata/00001-x.metadata.json", "s3://b/t"),
        ("s3://b/t/00001-x.metadata.json", "s3://b/t"),
        ("s3://b/t/metadata/v1.metadata.json.gz", "s3://b/t"),
        ("s3://b/metadata", "s3://b/metadata"),
    ],
)
def test_the_path_of_a_metadata_file_is_no_location(location: str, root: str) -> None:
    """S3 Tables has handed it out."""
    assert table_root(location) == root
    moved = {**TABLE, "metadata": {**TABLE["metadata"], "location": location}}
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, moved)) as server:
        one = table(rest(server.uri))
        assert one.location() == root
        assert one.catalog.commit_table(one, (), ()).metadata.location == root


def test_a_table_cannot_send_credentials_elsewhere() -> None:
    """Whoever may set a table's properties is not whoever may read our keys."""
    properties = {"s3.endpoint": "http://evil.example"}
    evil = {**TABLE, "metadata": {**TABLE["metadata"], "properties": properties}}
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, evil)) as server:
        assert "s3.endpoint" not in table(rest(server.uri)).io.properties


def test_a_vended_key_does_not_go_with_a_token_of_ours() -> None:
    vended = {**TABLE, "config": {"s3.access-key-id": "vended", "s3.secret-access-key": "x"}}
    own = {"s3.access-key-id": "own", "s3.secret-access-key": "y", "s3.session-token": "z"}
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, vended)) as server:
        found = table(rest(server.uri, **own)).io.properties
    assert found["s3.access-key-id"] == "vended"
    assert "s3.session-token" not in found


# -- mistakes --------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def _mistakes(silent: str, server: Scripted) -> dict[str, tuple[str, dict[str, str], type[CalveError]]]:
    return {
        "is not known": ("http://no-such-host.invalid:8181", {}, CatalogError),
        "no server listens": ("http://127.0.0.1:1", {}, CatalogError),
        "did not answer in time": (silent, {"rest.timeout-ms": "200"}, CatalogError),
        "no such catalog": (f"{server.uri}/elsewhere", {}, CatalogError),
        "not as an Iceberg REST catalog": (f"{server.uri}/page", {}, CatalogError),
        "denies it the catalog": (f"{server.uri}/denied", {}, AccessDenied),
        "not a time": (server.uri, {"rest.timeout-ms": "soon"}, ConfigError),
    }


def test_each_mistake_of_a_connection_is_an_error_of_its_own_within_ten_seconds(silent: str) -> None:
    def answer(asked: Asked) -> Said:
        match asked.path.split("/")[1]:
            case "elsewhere":
                return Said(404, {"error": {"message": "no", "type": "NotFound", "code": 404}})
            case "page":
                return Said(200, b"<html>welcome</html>")
            case "denied":
                return Said(403, {"error": {"message": "no right", "type": "Forbidden", "code": 403}})
        return _config(asked)

    with scripted(answer) as server:
        for words, (uri, properties, kind) in _mistakes(silent, server).items():
            started = time.monotonic()
            with pytest.raises(kind, match=words) as caught:
                rest(uri, token=SECRET, **properties)
            assert type(caught.value) is kind
            assert time.monotonic() - started < 10
            assert caught.value.hint
            assert SECRET not in str(caught.value)


def test_an_endpoint_that_turns_out_not_to_be_there_is_not_asked_again() -> None:
    """A server that names no endpoints has all of the specification's, or says no."""
    with scripted(_answering(lambda _: Said(405))) as server:
        catalog = rest(server.uri)
        assert isinstance(catalog, Rest)
        assert catalog.commits_many
        with pytest.raises(NotImplementedError):
            catalog.commit_tables([(("ns", "a"), (), ())])
        assert not catalog.commits_many
    named = {"endpoints": ["GET /v1/{prefix}/namespaces"]}
    with scripted(_answering(lambda _: Said(204, b""), named)) as server:
        catalog = rest(server.uri)
        assert isinstance(catalog, Rest)
        assert not catalog.commits_many


def test_vended_credentials_are_renewed_from_a_server_that_wants_a_certificate(
    ca: trustme.CA, bundle: str, tmp_path: Path
) -> None:
    mine = ca.issue_cert("ana@example.org")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "mine.pem")
    mine.private_key_pem.write_to_path(tmp_path / "mine.key")
    shown = {"ssl.client.cert": str(tmp_path / "mine.pem"), "ssl.client.key": str(tmp_path / "mine.key")}
    given = {"s3.access-key-id": "new", "s3.secret-access-key": "x", "s3.session-token": "t"}

    def answer(asked: Asked) -> Said:
        return _config(asked) if "config" in asked.path else Said(200, {**TABLE, "config": given})

    with scripted(answer, _serve(ca, "127.0.0.1", wants_client=True)) as server:
        catalog = rest(server.uri, **{"ssl.cabundle": bundle, **shown})
        refresh = access_of(table(catalog).io).refresh
        assert refresh is not None
        assert refresh("s3://bucket/ns/t") == given
        assert pickle.loads(pickle.dumps(refresh))("s3://bucket/ns/t") == given


def test_a_role_that_can_no_longer_be_assumed_is_denied_and_not_unknown() -> None:
    signing = {"rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1"}
    keys = {"client.access-key-id": "AKIDEXAMPLE", "client.secret-access-key": SECRET}
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, TABLE)) as server:
        catalog = rest(server.uri, **keys, **signing)
        adapter: Any = catalog._session.get_adapter(server.uri)  # type: ignore[attr-defined]

        class Gone:
            def get_frozen_credentials(self) -> None:
                raise CredentialRetrievalError(provider="assume-role", error_msg=SECRET)

        adapter._credentials = Gone()
        asked = len(server.asked)
        with pytest.raises(AccessDenied, match="no credentials to sign with") as caught:
            load(catalog, ("ns", "t"))
        assert len(server.asked) == asked
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_commit_that_is_sent_elsewhere_is_not_taken_for_landed(status: int) -> None:
    """A redirected POST becomes a GET, and the table that it shows reads like the answer to a commit."""

    def answer(asked: Asked) -> Said:
        if asked.method == "POST":
            return Said(status, b"", {"Location": asked.path})
        return _config(asked) if "config" in asked.path else Said(200, TABLE)

    with scripted(answer) as server, pytest.raises(TooManyRedirects):
        commit(rest(server.uri))
    assert [asked.method for asked in server.asked].count("GET") == 2, "the configuration and the table"


def test_p10_a_redirection_takes_no_secret_along() -> None:
    tokens = TokenServer()
    with scripted(tokens) as elsewhere:

        def away(asked: Asked) -> Said:
            return Said(307, b"", {"Location": elsewhere.uri + asked.path})

        with (
            scripted(away) as server,
            pytest.raises(CatalogError, match="sends its clients elsewhere") as caught,
        ):
            rest(server.uri, credential=f"ana:{SECRET}")
        assert "catalog.uri" in caught.value.hint
        given = {"s3.access-key-id": "new", "s3.secret-access-key": "x", "s3.session-token": "t"}
        vending = {**TABLE, "config": given}

        def credentials(asked: Asked) -> Said:
            if "credentials" in asked.path:
                return away(asked)
            return _config(asked) if "config" in asked.path else Said(200, vending)

        given["client.refresh-credentials-endpoint"] = "/v1/credentials"
        with scripted(credentials) as server:
            refresh = access_of(table(rest(server.uri, token=SECRET)).io).refresh
            assert refresh is not None
            with pytest.raises(StoreError, match="HTTP 307"):
                refresh("s3://bucket/ns/t")
        assert elsewhere.asked == []


def test_p10_an_answer_that_is_cut_is_not_quoted() -> None:
    cut = b'{"config": {"k": "' + SECRET.encode()  # short: pydantic shows the beginning and the end
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, cut)) as server:
        catalog = rest(server.uri)
        with pytest.raises(CatalogError) as caught:
            load(catalog, ("ns", "t"))
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown

    def token(asked: Asked) -> Said:
        return Said(200, b'{"access_token": "' + SECRET.encode())

    with scripted(token) as server, pytest.raises(AccessDenied) as denied:
        rest(server.uri, credential="ana:other")
    assert SECRET not in "".join(traceback.format_exception(denied.value))


def test_an_answer_that_comes_in_drops_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def drip() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                    with suppress(OSError):
                        while not stop.wait(0.05):
                            connection.sendall(b" ")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        started = time.monotonic()
        with pytest.raises(CatalogError, match="did not answer in time"):
            rest(f"http://127.0.0.1:{listening.getsockname()[1]}", **{"rest.timeout-ms": "500"})
        assert time.monotonic() - started < 8
        stop.set()
    thread.join()


def test_a_server_that_hangs_is_told_of_within_ten_seconds(silent: str) -> None:
    started = time.monotonic()
    with pytest.raises(CatalogError, match="did not answer in time"):
        rest(silent)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("body", [{"defaults": None}, {"defaults": {}, "overrides": 7}, [], 5, "x"], ids=str)
def test_a_configuration_that_is_none_is_told(body: object) -> None:
    with (
        scripted(lambda _: Said(200, body)) as server,
        pytest.raises(CatalogError, match="not as an Iceberg"),
    ):
        rest(server.uri)


def test_all_snapshots_are_asked_for_whatever_is_configured() -> None:
    with scripted(lambda asked: _config(asked) if "config" in asked.path else Said(200, TABLE)) as server:
        table(rest(server.uri, **{"snapshot-loading-mode": "refs"}))
    assert server.asked[-1].path.endswith("?snapshots=all")


def test_what_is_half_said_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("x", encoding="utf-8")
    for properties in ({"ssl.client.key": str(tmp_path / "key.pem")}, {"rest.sigv4-enabled": "yes"}):
        with pytest.raises(ConfigError):
            rest("http://127.0.0.1:1", **properties)


def test_a_misspelt_property_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with scripted(_config) as server, caplog.at_level("WARNING", "calve"):
        rest(server.uri, **{"ssl.ca-bundle": "x", "header.X-A": "y", "scope": "z"})
    assert "'ssl.ca-bundle'; did you mean ssl.cabundle?" in caplog.text
    assert "header" not in caplog.text
    assert "scope" not in caplog.text


def test_plain_http_at_an_https_address_is_told_as_such() -> None:
    with scripted(_config) as server, pytest.raises(CatalogError, match="does not speak TLS") as caught:
        rest(server.uri.replace("http:", "https:"))
    assert "http instead of https" in caught.value.hint


def test_a_server_of_tokens_that_is_away_is_named() -> None:
    with scripted(_config) as server, pytest.raises(CatalogError, match=r"127\.0\.0\.1:1\b"):
        rest(server.uri, credential=f"ana:{SECRET}", **{"oauth2-server-uri": "http://127.0.0.1:1/token"})
