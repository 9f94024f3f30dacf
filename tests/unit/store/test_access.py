"""Access: settings under their names, secrets that do not show, clients as they are asked for."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from calve.config.catalog import CatalogConfig
from calve.model.errors import ConfigError, StoreError
from calve.store import Access, adls, gcs, s3, store_for
from calve.store.access import Refresh, vended
from calve.table.catalogs.properties import file_properties
from calve.table.fileio import StoreFileIO
from tests.support.http import Said, scripted

CANARY = "canary/of+the=store"


def test_settings_of_stores_are_chosen_and_the_rest_is_left_out() -> None:
    access = Access.of({"s3.endpoint": "http://h", "uri": "http://c", "token": CANARY, "warehouse": "w"})
    assert access.settings == (("s3.endpoint", "http://h"),)


def test_object_stores_own_names_are_followed_and_icebergs_go_before_them() -> None:
    access = Access.of({"aws_region": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "s3.access-key-id": "b"})
    assert (access.get("s3.region"), access.get("s3.access-key-id")) == ("eu-west-1", "b")


def test_p10_no_secret_shows_in_a_repr_or_in_what_a_library_says() -> None:
    access = Access.of({"s3.secret-access-key": CANARY, "s3.region": "eu-west-1", "s3.access-key-id": "AKID"})
    assert "canary" not in repr(access)
    said = f"no such thing: {CANARY}, canary%2Fof%2Bthe%3Dstore, in eu-west-1 by AKID"
    assert access.redact(said) == "no such thing: ***, ***, in eu-west-1 by AKID"


def test_a_sent_access_takes_the_login_of_the_moment_along() -> None:
    tokens = iter(["one", "two", "three"])
    access = Access.of({"s3.region": "x"}, Refresh("http://h", lambda: {"Authorization": next(tokens)}))
    assert access.refresh is not None
    access.refresh.headers()
    sent = pickle.loads(pickle.dumps(access))
    assert sent.settings == access.settings
    assert [dict(sent.refresh.headers())["Authorization"] for _ in range(2)] == ["two", "two"]


def test_a_file_is_read_in_the_driver(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM", encoding="utf-8")
    access = Access.of({"store.ca-file": str(tmp_path / "ca.pem")})
    assert access.settings == (("store.ca-pem", "PEM"),)
    with pytest.raises(ConfigError, match=r"gcs\.service-account-file"):
        Access.of({"gcs.service-account-file": str(tmp_path / "nothing")})


def test_the_longest_prefix_that_fits_gives_the_credentials() -> None:
    answer = {
        "config": {"s3.region": "r", "s3.access-key-id": "all"},
        "storage-credentials": [
            {"prefix": "s3://b", "config": {"s3.access-key-id": "bucket"}},
            {"prefix": "s3://b/t", "config": {"s3.access-key-id": "table"}},
            {"prefix": "s3://other", "config": {"s3.access-key-id": "other"}},
        ],
    }
    assert vended(answer, "s3://b/t/data") == {"s3.region": "r", "s3.access-key-id": "table"}
    assert vended(answer, "s3://c/t") == {"s3.region": "r", "s3.access-key-id": "all"}


def test_a_misspelt_property_is_told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    config = CatalogConfig(warehouse=str(tmp_path), storage={"s3.acces-key-id": CANARY, "s3.region": "x"})
    with caplog.at_level(logging.WARNING, "calve"):
        file_properties(config)
    assert "'s3.acces-key-id'; did you mean s3.access-key-id?" in caplog.text
    assert "canary" not in caplog.text
    assert "s3.region" not in caplog.text


@pytest.mark.parametrize(
    "settings, wanted",
    [
        ({"s3.sse.type": "none"}, {}),
        ({}, {}),
        ({"s3.sse.type": "s3"}, {"server_side_encryption": "AES256"}),
        (
            {"s3.sse.type": "kms", "s3.sse.key": "k"},
            {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"},
        ),
        ({"s3.sse.type": "dsse-kms"}, {"server_side_encryption": "aws:kms:dsse"}),
        (
            {"s3.sse.type": "custom", "s3.sse.key": "k"},
            {"server_side_encryption": "sse-c", "sse_customer_key_base64": "k"},
        ),
        (
            {"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": "k"},
            {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"},
        ),
    ],
)
def test_encryption_is_asked_for_in_the_stores_words(
    settings: dict[str, str], wanted: dict[str, str]
) -> None:
    assert s3.encryption(Access.of(settings)) == wanted


@pytest.mark.parametrize(
    "location, settings, reason",
    [
        ("s3:///key", {}, "names no bucket"),
        ("s3://b/k", {"s3.access-key-id": "a"}, "no s3.secret-access-key"),
        ("s3://b/k", {"s3.sse.type": "rot13"}, "s3.sse.type"),
        ("s3://b/k", {"s3.sse.type": "custom"}, "without a key"),
        ("s3://b/k", {"s3.signer": "x"}, "s3.signer"),
        ("s3://b/k", {"s3.remote-signing-enabled": "true"}, "s3.signer"),
        ("s3://b/k", {"s3.connect-timeout": "soon"}, "s3.connect-timeout"),
        ("s3://b/k", {"s3.connect-timeout": "-1"}, "s3.connect-timeout"),
        ("s3://b/k", {"store.retries": "inf"}, "store.retries"),
        ("s3://b/k", {"s3.multipart.part-size-bytes": "0"}, "part-size-bytes"),
        ("s3://b/k", {"s3.multipart.part-size-bytes": "1000000"}, "part-size-bytes"),
        ("s3://b/k", {"s3.multipart.part-size-bytes": "nan"}, "part-size-bytes"),
        ("s3://b/k", {"s3.multipart.num-threads": "0"}, "num-threads"),
        ("s3://b/k", {"s3.path-style-access": "yes"}, "neither true nor false"),
        ("s3://b/k", {"s3.endpoint": "localhost:9000"}, "no URL of a server"),
        ("s3://b/k", {"s3.endpoint": "http://"}, "no URL of a server"),
        ("s3://b/k", {"s3.endpoint": "http://h:99999"}, "no URL of a server"),
        ("s3://b/k", {"s3.endpoint": "http://ana:canary@h:1"}, "no URL of a server"),
        ("s3://b/k", {"s3.secret-access-key": "x"}, "no s3.access-key-id"),
        ("s3://b/k", {"s3.sse.type": "custom", "s3.sse.key": "not base64!"}, "cannot be opened"),
        ("s3://b/k", {"store.ca-pem": "no certificate"}, "cannot be opened"),
        ("gs://b/k", {"gcs.service-account-key": "{"}, "cannot be opened"),
        ("abfss://c@a.dfs.core.windows.net/k", {"adls.account-key": "not base64!"}, "cannot be opened"),
        ("s3://b/k", {"s3.profile-name": "no-such-profile"}, "no-such-profile"),
        ("s3://b/k", {"s3.role-arn": "not-an-arn"}, "role"),
        ("abfss:///k", {}, "names no container"),
        ("abfss://c/k", {}, "in no account"),
    ],
)
def test_what_cannot_be_a_store_is_refused_before_it_is_asked(
    location: str, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises((ConfigError, StoreError), match=reason) as caught:
        store_for(location, Access.of(settings))
    assert caught.value.hint
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("key", ["/a", "a//b", "a/../b", "./a", "a/"])
def test_a_key_that_stores_read_otherwise_than_it_is_written_is_refused(key: str) -> None:
    store = store_for("s3://b/k", Access.of({"s3.access-key-id": "a", "s3.secret-access-key": "b"}))
    with pytest.raises(StoreError, match="a part that is empty"):
        store.create(f"s3://b/{key}")


def test_a_token_of_one_login_does_not_go_with_the_key_of_another() -> None:
    settings = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "client.session-token": "of another"}
    assert s3._login(Access.of(settings)).credential["token"] is None
    assert s3._login(Access.of({**settings, "s3.session-token": "own"})).credential["token"] == "own"


def test_credentials_of_a_prefix_are_for_what_lies_below_it() -> None:
    keys = {"s3.access-key-id": "all", "s3.secret-access-key": "x", "s3.session-token": "t", "s3.region": "r"}
    own = {"s3.access-key-id": "table", "s3.secret-access-key": "y"}
    access = StoreFileIO(keys, None, {"s3://b/t": own}, "s3://b/t").access
    below, beside = access.at("s3://b/t/data/f"), access.at("s3://c/f")
    assert (below.get("s3.access-key-id"), below.get("s3.session-token"), below.place) == (
        "table",
        None,
        "s3://b/t",
    )
    assert (below.get("s3.region"), beside.get("s3.access-key-id")) == ("r", "all")


@pytest.mark.parametrize(
    "module, location, wanted",
    [
        (s3, "s3://b/a/k", ("b", "a/k")),
        (s3, "s3a://b/a%20b/ü=1/k", ("b", "a%20b/ü=1/k")),
        (s3, "s3://b", ("b", "")),
        (s3, "s3://b/x?y#z", ("b", "x?y#z")),
        (gcs, "gs://b/k", ("b", "k")),
        (adls, "abfss://c@a.dfs.core.windows.net/x/k", ("c@a.dfs.core.windows.net", "x/k")),
        (adls, "abfss://c/k", ("c@", "k")),
    ],
)
def test_a_location_is_a_bucket_and_a_key_as_it_is_written(
    module: object, location: str, wanted: tuple[str, str]
) -> None:
    assert module.split(location) == wanted  # type: ignore[attr-defined]


def test_a_client_is_kept_for_the_same_login_and_not_for_another() -> None:
    one = Access.of({"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "x"})
    other = Access.of({"s3.access-key-id": "a", "s3.secret-access-key": "c", "s3.region": "x"})
    assert store_for("s3://b/k", one) is store_for("s3://b/other", one)
    assert store_for("s3://b/k", one) is not store_for("s3://b/k", other)


def test_p10_what_was_vended_later_does_not_show_either() -> None:
    """S3 says an expired token back in its error."""
    given = {"config": {"s3.session-token": "canary-of-a-later-token", "s3.region": "eu-west-1"}}
    with scripted(lambda _: Said(200, given)) as server:
        refresh = Refresh(f"{server.uri}/credentials", dict)
        access = Access.of({"s3.session-token": "canary-of-a-token"}, refresh)
        refresh("s3://b/t")
    said = "InvalidToken: canary-of-a-later-token, not canary-of-a-token, in eu-west-1"
    assert access.redact(said) == "InvalidToken: ***, not ***, in eu-west-1"
    assert "canary" not in f"{refresh!r} {access!r}"
