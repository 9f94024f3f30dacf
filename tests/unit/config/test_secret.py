"""Secrets work and never show (P10)."""

import base64
import copy
import gc
import json
import pickle
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calve.config.secret import (
    MASK,
    FrozenMap,
    Hidden,
    Secrets,
    hide_property,
    hide_uri,
    is_secret_name,
    live_secrets,
    redact,
)
from calve.model.errors import ConfigError


@pytest.mark.parametrize(
    "uri,shown",
    [
        ("http://host:8181/a", "http://host:8181/a"),
        ("sqlite:///a@b/c.db", "sqlite:///a@b/c.db"),
        ("/data/a@b", "/data/a@b"),
        ("postgresql://user:pw@host/db", "postgresql://***@host/db"),
        ("postgresql://user:p@w/x@host/db", "postgresql://***@host/db"),
        ("postgresql://user:p?w@host/db", "postgresql://***@host/db"),
        ("postgresql://h/db?sslmode=require&password=x", "postgresql://h/db?sslmode=require&password=***"),
        ("https://h/x?sig=abc#frag", "https://h/x?sig=***#***"),
        ("https://h/x?", "https://h/x?"),
        ("https://h/x?bare", "https://h/x?***"),
        ("https://token@h", "https://***@h"),
        ("jdbc:postgresql://u:p@h/db;password=x", "jdbc:postgresql://***@h/db;password=***"),
        ("thrift://a:1,thrift://u:p@b:2", "thrift://***@b:2"),
        ("user:pw@host", "***@host"),
    ],
)
def test_a_uri_shows_neither_login_nor_query(uri, shown):
    hidden = hide_uri(uri)
    assert str(hidden) == f"{hidden}" == shown
    assert repr(hidden) == repr(shown)
    assert hidden.reveal() == uri
    assert hidden.is_secret is (uri != shown)


@pytest.mark.parametrize(
    "name,shows",
    [
        ("token", False),
        ("credential", False),
        ("aws_access_key_id", False),
        ("s3.secret-access-key", False),
        ("a-name-that-nobody-foresaw", False),
        ("header.Authorization", False),
        ("region", True),
        ("s3.region", True),
        ("aws_region", True),
        ("s3.endpoint", True),
        ("scope", True),
    ],
)
def test_a_property_shows_only_where_its_name_is_known_to_be_harmless(name, shows):
    assert str(hide_property(name, "value")) == ("value" if shows else MASK)


def test_a_harmless_property_that_holds_a_login_is_masked_all_the_same():
    assert str(hide_property("s3.endpoint", "http://me:canary@host")) == "http://***@host"


def test_a_masked_value_is_not_taken_for_a_secret():
    for hide in (lambda: hide_property("token", MASK), lambda: hide_uri("http://***@host")):
        with pytest.raises(ConfigError, match="masked"):
            hide()


def test_hidden_is_a_value_that_copies_and_compares():
    one = Hidden("a")
    assert one == Hidden("a")
    assert one != Hidden("b")
    assert one != "a"
    assert hash(one) == hash(Hidden("a"))
    assert copy.copy(one) is one
    assert copy.deepcopy(one) is one


def test_case_61_a_secret_is_never_pickled():
    for secret in (Hidden("a"), Secrets(["canary"])):
        with pytest.raises(ConfigError, match="pickled") as refused:
            pickle.dumps(secret)
        assert "canary" not in str(refused.value)
    harmless = Hidden("eu", "eu")
    assert pickle.loads(pickle.dumps(harmless)) == harmless


def test_a_frozen_map_is_a_mapping_that_cannot_change():
    entries = FrozenMap({"a": 1, "b": 2})
    assert dict(entries) == {"a": 1, "b": 2}
    assert entries["a"] == 1
    assert len(entries) == 2
    assert entries == FrozenMap([("b", 2), ("a", 1)])
    assert hash(entries) == hash(FrozenMap([("b", 2), ("a", 1)]))
    assert repr(entries) == "{'a': 1, 'b': 2}"
    assert pickle.loads(pickle.dumps(entries)) == entries
    assert not hasattr(entries, "__setitem__")


def test_known_secrets_are_taken_out_in_every_spelling():
    secret = "c@nary/'\t+é"
    secrets = hide_property("token", secret).parts
    basic = base64.b64encode(secret.encode()).decode()
    for spelling in (secret, quote(secret, safe=""), repr(secret)[1:-1], json.dumps(secret)[1:-1], basic):
        assert redact(f"no: {spelling}!", secrets) == "no: ***!"


def test_the_token_inside_a_header_or_a_connection_string_is_a_secret_by_itself():
    header = hide_property("header.Authorization", "Bearer t0ken-of-mine").parts
    assert redact("Bearer t0ken-of-mine, t0ken-of-mine", header) == "***, ***"
    string = hide_property("connection", "AccountName=me;AccountKey=k3y-of-mine==").parts
    assert redact("me: k3y-of-mine==", string) == "me: ***"
    assert redact("cGFkZGVkPQ==", hide_property("x", "a cGFkZGVkPQ==").parts) == MASK


def test_a_text_may_say_where_a_secret_is_kept():
    hint = "Name where it is: catalog.prop.token=env:NAME or catalog.prop.token=file:/path."
    assert redact(hint) == hint
    assert redact("token=environment") == f"token={MASK}"


def test_both_halves_of_a_credential_are_secret():
    secrets = hide_property("credential", "client-id:client-secret").parts
    assert redact("no client client-secret for client-id", secrets) == "no client *** for ***"


def test_the_password_of_a_uri_is_known_encoded_and_decoded():
    secrets = hide_uri("postgresql://me:c%40nary@host/db").parts | hide_uri("https://h?sig=s1gnature").parts
    assert (
        redact("login of me with c@nary or c%40nary, s1gnature", secrets)
        == "login of me with *** or ***, ***"
    )


def test_a_role_without_a_password_is_a_name_and_a_user_without_one_elsewhere_is_a_token():
    assert len(hide_uri("postgresql://postgres@host/db").parts) == 0
    assert redact("t0ken-of-mine", hide_uri("https://t0ken-of-mine@host").parts) == MASK


def test_a_very_short_secret_goes_only_where_it_stands_alone():
    assert redact("a cat: pw=a", Secrets(["a"])) == "*** cat: pw=***"
    assert redact("true is no secret", Secrets(["true", ""])) == "true is no secret"


@pytest.mark.parametrize(
    "text,clean",
    [
        ("cannot reach https://me:pw@host/x", "cannot reach https://***@host/x"),
        ("Authorization: Bearer abcdefghijklmnop.qrs", "Authorization: Bearer ***"),
        ("uri had password=hunter2&x=1", "uri had password=***&x=1"),
        ("the token expired", "the token expired"),
        ("table a.b at s3://bucket/a@b", "table a.b at s3://bucket/a@b"),
    ],
)
def test_what_looks_like_a_secret_goes_from_any_text(text, clean):
    assert redact(text) == clean


def test_names_that_carry_secrets_are_known():
    for name in ("db.password", "AWS_SECRET_ACCESS_KEY", "api-key", "oauth.token", "sas", "account_key"):
        assert is_secret_name(name)
    for name in ("kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "SSL-KEY"):
        assert is_secret_name(name)
    for name in ("write.format.default", "history.expire.max-ref-age-ms", "owner", "kafka.key.format"):
        assert not is_secret_name(name)


@given(st.text(alphabet=st.characters(exclude_characters="*"), min_size=4), st.text(), st.text())
def test_no_secret_survives_redaction(secret, before, after):
    assume(secret.strip().lower() not in ("", "true", "false", "none"))
    secrets = Secrets([secret])
    assert repr(secrets) == "<1 secrets>"
    assert secret not in redact(f"{before}{secret}{after}", secrets)


@given(
    st.from_regex(
        r"[a-z]{3,8}://[^@*\s]{1,12}:canary[^@*\s]{0,12}@[a-z]{1,9}(/[^@*\s]{0,9})?", fullmatch=True
    )
)
def test_a_password_in_a_uri_never_shows_whatever_stands_around_it(uri):
    hidden = hide_uri(uri)
    assert uri.partition("://")[2].startswith("/") or "canary" not in str(hidden)


def test_the_secrets_of_all_configurations_in_use_are_known():
    """For a text of which nobody knows whose it is (P10)."""
    text = "canary-1 canary-2 us-east-1 canary-3"
    token, twin, uri = (
        hide_property("token", "canary-1"),
        Hidden("canary-2"),
        hide_uri("https://u:canary-3@h"),
    )
    assert live_secrets().redact(text) == f"{MASK} {MASK} us-east-1 {MASK}"
    kept = Hidden("canary-2")
    assert kept == twin
    del twin, uri
    gc.collect()
    assert "canary-2" not in live_secrets().redact(text), "of two that are equal, one is still in use"
    assert "canary-3" in live_secrets().redact(text), "what nobody uses any more is not kept for this"
    assert token.is_secret


def test_what_is_harmless_is_not_taken_for_a_secret():
    region = hide_property("region", "eu-canary-7")
    assert live_secrets().redact("eu-canary-7") == "eu-canary-7"
    assert not region.is_secret
