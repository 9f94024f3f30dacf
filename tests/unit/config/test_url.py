"""iceberg:// URLs: options in one line, and no secret in any of them."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.config.options.listing import OPTIONS
from calve.config.sink import Mode, SinkConfig
from calve.config.url import is_sink_url, show_name, url_options
from calve.model.errors import BadName, CalveError, ConfigError, UnknownOption
from calve.runtime.sink import IcebergSink

CANARY = "c4nary-s3cret"


def test_a_url_is_a_sink():
    config = SinkConfig.from_url(
        "iceberg://catalog.example.org:8181/api/catalog/sales.emea/orders?warehouse=s3://lake/w"
        "&write.mode=upsert&equality_delete_by=id,region&partition=day(ts)&target.file.size=64MB"
        "&storage.s3.region=eu-west-1&catalog.prop.rest.sigv4-enabled=true"
    )
    assert config.identifier == ("sales", "emea", "orders")
    assert config.catalog.reveal()["uri"] == "https://catalog.example.org:8181/api/catalog"
    assert config.catalog.warehouse == "s3://lake/w"
    assert (config.mode, config.key) == (Mode.UPSERT, ("id", "region"))
    assert config.target_file_bytes == 64 * 2**20
    assert config.catalog.reveal()["s3.region"] == "eu-west-1"
    assert config.partition[0].column == "ts"


@pytest.mark.parametrize(
    "place,uri",
    [
        ("localhost:8181", "http://localhost:8181"),
        ("127.0.0.1:8181", "http://127.0.0.1:8181"),
        ("127.9.9.9", "http://127.9.9.9"),
        ("[::1]:8181", "http://[::1]:8181"),
        ("rest.localhost", "http://rest.localhost"),
        ("lake.example.org", "https://lake.example.org"),
        ("10.0.0.7:8181", "https://10.0.0.7:8181"),
        ("localhost.example.org", "https://localhost.example.org"),
        ("Lake.Example.ORG:443", "https://lake.example.org:443"),
    ],
)
def test_only_a_server_on_this_machine_is_spoken_to_in_the_clear(place, uri):
    assert url_options(f"iceberg://{place}/a/b")["catalog.uri"] == uri


def test_tls_is_said_where_it_is_otherwise():
    assert url_options("iceberg://lake/a/b?tls=false")["catalog.uri"] == "http://lake"
    assert url_options("iceberg://localhost/a/b?tls=true")["catalog.uri"] == "https://localhost"


def test_without_a_host_the_options_say_which_catalog_it_is(tmp_path):
    config = SinkConfig.from_url(f"iceberg:///sales/orders?warehouse={tmp_path}")
    assert config.catalog.is_embedded
    named = SinkConfig.from_url("iceberg:///a/b?catalog.uri=postgresql://me@host/db&warehouse=s3://w")
    assert named.catalog.type == "sql"


@given(
    st.lists(st.text(alphabet="abc é%-_=&+", min_size=1, max_size=5), min_size=1, max_size=3),
    st.text(alphabet="abc é-_=&+", min_size=1, max_size=5),
)
def test_percent_encoded_names_come_through(levels, table):
    options = url_options(
        f"iceberg://h/{quote('.'.join(levels), safe='')}/{quote(table, safe='')}?mode=append"
    )
    assert (options["namespace"], options["table.name"]) == (".".join(levels), table)


@pytest.mark.parametrize("option", [one for one in OPTIONS if one.name not in ("namespace", "table.name")])
def test_every_option_may_stand_in_a_url_under_its_own_name(option):
    name = option.name.replace("*", "region")
    if option.name.startswith("catalog.") and option.prefix is None:
        url = f"iceberg:///a/b?{name}=x"
    else:
        url = f"iceberg://h/a/b?{name}=x"
    assert url_options(url)[name] == "x"


@pytest.mark.parametrize(
    "url,kind,said,hint",
    [
        ("iceberg://h/a/b?warehous=w", UnknownOption, "'warehous'", "'warehouse'"),
        ("iceberg://h/a/b?equality_delete_bye=w", UnknownOption, "", "'equality_delete_by'"),
        ("iceberg://h/a/b?zzzzzzzz=w", UnknownOption, "'zzzzzzzz'", "docs/options.md"),
        ("iceberg://h/a/b?mode", ConfigError, "'mode' has no value", ""),
        ("iceberg://h/a/b?mode=append&write.mode=append", ConfigError, "says again", ""),
        ("iceberg://h/a/b?namespace=x", ConfigError, "says what the path says", ""),
        ("iceberg://h/a/b?table.name=x", ConfigError, "says what the path says", ""),
        ("iceberg://h/a/b?catalog.uri=http://x", ConfigError, "by its host and by 'catalog.uri'", ""),
        ("iceberg://h/a/b?catalog.type=glue", ConfigError, "is a REST server", ""),
        ("iceberg://h/a/b?tls=perhaps", ConfigError, "tls", ""),
        ("iceberg://h/b", BadName, "a namespace and a table", ""),
        ("iceberg://h", BadName, "a namespace and a table", ""),
        ("iceberg://h/a/b/", BadName, "a namespace and a table", ""),
        ("iceberg://h//b", BadName, "a namespace and a table", ""),
        ("iceberg:///x/a/b", ConfigError, "has no host", ""),
        ("iceberg://h:port/a/b", ConfigError, "host and port", ""),
        ("iceberg://h:99999/a/b", ConfigError, "host and port", ""),
        ("iceberg://[::1/a/b", ConfigError, "host and port", ""),
        ("iceberg:// h/a/b", ConfigError, "a host or a port", "host:port"),
        ("iceberg://my host/a/b", ConfigError, "a host or a port", "host:port"),
        ("iceberg://h%0A/a/b", ConfigError, "a host or a port", "host:port"),
        ("iceberg://h:0/a/b", ConfigError, "a host or a port", "host:port"),
        ("iceberg://h\n/a/b", ConfigError, "a line break", "one line"),
        ("iceberg://h/a/\tb", ConfigError, "a line break", "one line"),
        ("iceberg://h/a/b?warehouse=w\r", ConfigError, "a line break", "one line"),
        ("iceberg:///a/b?catalog.uri=postgresql://me:x@h/db", ConfigError, "carries a login", "=env:NAME"),
        ("iceberg://h/a/%zz", ConfigError, "not percent-encoded", ""),
        ("iceberg://h/a/%ff", ConfigError, "not percent-encoded", ""),
        ("iceberg://h/a/b#c", ConfigError, "fragment", ""),
        ("iceberg://h/..%2F..%2Fevil/b", BadName, "", ""),
        ("iceberg://h/a/b?credential=env:NO_SUCH_VARIABLE_HERE", ConfigError, "environment", ""),
        ("iceberg://h/a/b?token=file:/no/such/file", ConfigError, "FileNotFoundError", ""),
        ("http://h/a/b", ConfigError, "begins with iceberg://", ""),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url, kind, said, hint):
    with pytest.raises(kind) as caught:
        SinkConfig.from_url(url)
    assert said in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        f"iceberg://me:{CANARY}@h/a/b",
        f"iceberg://{CANARY}@h/a/b",
        f"iceberg://h/a/b?credential={CANARY}",
        f"iceberg://h/a/b?token={CANARY}",
        f"iceberg://h/a/b?catalog.prop.header.Authorization=Bearer%20{CANARY}",
        f"iceberg://h/a/b?storage.s3.secret-access-key={CANARY}",
        f"iceberg://h/a/b?storage.adls.sas-token={CANARY}",
        f"iceberg://h/a/b?storage.something-new={CANARY}",
        f"iceberg://h/a/b?credential=env:{CANARY}",
        f"iceberg://h/a/b?token=file:/{CANARY}",
        f"iceberg://h/a/b?warehouse=s3://key:{CANARY}@bucket",
        f"iceberg://h/a/b#{CANARY}",
        f"iceberg://h:{CANARY}/a/b",
        f"iceberg://{CANARY} {CANARY}/a/b",
        f"iceberg:///a/b?catalog.uri=http://{CANARY}@h",
        f"iceberg://h/a/b?catalog.uri=http://me:{CANARY}@h",
    ],
)
def test_no_secret_of_a_url_shows(url):
    """P10: it is refused without a word of it, or hidden."""
    try:
        config = SinkConfig.from_url(url)
        shown = repr(config) + str(config) + str(config.describe())
    except CalveError as error:
        shown = "".join(traceback.format_exception(error))
    assert CANARY not in shown


@pytest.mark.parametrize(
    "said",
    [
        f"catalog.uri=postgresql://me:{CANARY}@h/db",
        f"catalog.uri=postgresql://me:{quote(f'{CANARY}/@', safe='')}@h/db",
        f"catalog.uri={quote(f'postgresql://me:{CANARY}@h/db', safe='')}",
        f"catalog.uri=postgresql://h/db?user=me%26password={CANARY}",
        f"catalog.uri=postgresql+psycopg://me:{CANARY}@h/db",
        f"catalog.uri=http://{CANARY}@h",
        f"catalog.uri=me:{CANARY}@h/db",
        f"catalog.prop.oauth2-server-uri=https://me:{CANARY}@h/token",
        f"storage.s3.endpoint=https://me:{CANARY}@h",
    ],
)
def test_a_login_inside_a_uri_of_a_url_is_refused(said):
    with pytest.raises(ConfigError, match="carries a login or a key") as refused:
        url_options(f"iceberg:///a/b?warehouse=w&{said}")
    assert CANARY not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "said",
    [
        "catalog.uri=postgresql://me@h:5432/db?sslmode=require",
        "catalog.uri=sqlite:////lake/a@b/catalog.db",
        "catalog.uri=http://h:8181/api/catalog",
        "storage.s3.endpoint=https://h:9000",
        "catalog.prop.header.X-Owner=me@example.org",
    ],
)
def test_a_uri_without_a_password_may_stand_in_a_url(said):
    name, _, value = said.partition("=")
    assert url_options(f"iceberg:///a/b?warehouse=w&{said}")[name] == value


def test_a_uri_with_a_login_is_named_and_read(monkeypatch):
    monkeypatch.setenv("LAKE_URI", f"postgresql://me:{CANARY}@h/db")
    config = SinkConfig.from_url("iceberg:///a/b?warehouse=s3://w&catalog.uri=env:LAKE_URI")
    assert config.catalog.reveal()["uri"] == f"postgresql://me:{CANARY}@h/db"
    assert CANARY not in repr(config) + str(config.describe())


@pytest.mark.parametrize(
    "name,shown",
    [
        ("lake.sales.orders", "lake.sales.orders"),
        ("iceberg:///a/b", "iceberg:///a/b"),
        (f"iceberg:///a/b?token={CANARY}", "iceberg:///a/b?…"),
        (f"iceberg:///a/b#{CANARY}", "iceberg:///a/b?…"),
        (f"iceberg://me:{CANARY}/@h:8181/a/b?x=y", "iceberg://***@h:8181/a/b?…"),
    ],
)
def test_a_url_is_shown_without_its_login_and_its_query(name, shown):
    assert show_name(name) == shown


def test_a_secret_is_named_and_read(monkeypatch, tmp_path):
    monkeypatch.setenv("LAKE_CREDENTIAL", f"id:{CANARY}")
    (tmp_path / "token").write_text(f"{CANARY}\n")
    config = SinkConfig.from_url(
        f"iceberg://h/a/b?credential=env:LAKE_CREDENTIAL&storage.gcs.oauth2.token=file:{tmp_path}/token"
    )
    revealed = config.catalog.reveal()
    assert revealed["credential"] == f"id:{CANARY}"
    assert revealed["gcs.oauth2.token"] == CANARY
    assert CANARY not in repr(config) + str(config.describe())


def test_a_sink_of_one_process_is_made_by_a_url(tmp_path):
    import pyarrow as pa

    with IcebergSink.from_url(f"iceberg:///shop/orders?warehouse={tmp_path}&mode=upsert&key=id") as sink:
        assert sink.begin_epoch(1)
        sink.write_batch(pa.table({"id": [1, 2]}))
        assert sink.commit_epoch(1).rows == 2


def test_a_name_is_no_url():
    assert not is_sink_url("lake.sales.orders")
    assert not is_sink_url(None)
    assert is_sink_url("ICEBERG://h/a/b")
