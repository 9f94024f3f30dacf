"""Materialize, live: what is read between two times, against a server that speaks its protocol."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Generator, Iterator

import pyarrow as pa
import pytest

from calve.model.errors import BadColumns, ConfigError, Overcompacted, StoreError
from calve.source.materialize.client import Login, Subscription, heard
from calve.source.materialize.describe import describe
from calve.source.materialize.rows import Shape
from tests.support.servers.materialize import PASSWORD, USER, MaterializeServer, Relation, materialize_server

ORDERS = Subscription.of("public.orders", None)
COLUMNS = [("id", 20, -1), ("note", 25, -1)]
SHAPE = Shape("orders", (("id", "long"), ("note", "string")))


@pytest.fixture
def server() -> Iterator[MaterializeServer]:
    relation = Relation('"public"."orders"', COLUMNS)
    relation.put(20, (10, 1, ("1", "a")), (11, 2, ("2", "b")), (15, -1, ("1", "a")), (15, 1, ("1", "A")))
    with materialize_server(relation) as running:
        yield running


def read(server: MaterializeServer, lower: int | None, upper: int) -> list[tuple[int, int, int, str]]:
    batches = [SHAPE.changes(rows) for rows in ORDERS.between(Login(server.uri), lower, upper)]
    rows = pa.Table.from_batches(batches, SHAPE.schema).to_pylist()
    return [(row["at"], row["diff"], row["row"]["id"], row["row"]["note"]) for row in rows]


def test_the_first_read_is_all_that_is_there_at_its_end(server):
    assert read(server, None, 12) == [(11, 1, 1, "a"), (11, 2, 2, "b")]
    assert read(server, None, 20) == [(19, 1, 1, "A"), (19, 2, 2, "b")]


def test_the_next_one_is_all_that_happened_since_bounds_included_below_and_excluded_above(server):
    assert read(server, 11, 15) == [(11, 2, 2, "b")]
    assert read(server, 15, 16) == [(15, -1, 1, "a"), (15, 1, 1, "A")]
    assert read(server, 16, 20) == []


@pytest.mark.parametrize("fetched", [1, 2, 10_000])
def test_pieces_tile_time_however_many_rows_are_fetched(server, fetched, monkeypatch):
    monkeypatch.setattr("calve.source.materialize.client.FETCH_ROWS", fetched)
    whole = read(server, 2, 20)
    assert [row for lower in range(2, 20) for row in read(server, lower, lower + 1)] == whole
    assert len(whole) == 4


def test_the_time_is_one_at_which_the_relation_can_be_read_and_no_row_is_sent(server):
    assert ORDERS.now(Login(server.uri)) == 19
    assert [one for one in server.seen if one.startswith("FETCH")] == ["FETCH 1 calve"]


def test_a_read_waits_for_what_is_not_complete_yet(server):
    import threading

    more = threading.Timer(0.2, lambda: server.relation.put(30, (25, 1, ("3", "c"))))
    more.start()
    assert read(server, 20, 30) == [(25, 1, 3, "c")]
    more.join()


def test_history_that_is_gone_is_refused_and_says_what_keeps_it(server):
    server.relation.since = 18
    with pytest.raises(Overcompacted) as caught:
        read(server, 15, 20)
    assert "does not tell what follows 14" in caught.value.message
    assert "RETAIN HISTORY" in caught.value.hint


@pytest.mark.parametrize(
    "uri,said",
    [
        ("postgresql://reader:wrong-" + PASSWORD + "@127.0.0.1:{port}/materialize", "authentication failed"),
        ("postgresql://reader:" + PASSWORD + "@127.0.0.1:1/materialize", "127.0.0.1"),
        ("postgresql://reader:" + PASSWORD + "@127.0.0.1:{port}/materialize?nonsense=1", "nonsense"),
    ],
    ids=["password", "port", "option"],
)
def test_a_server_that_cannot_be_asked_is_an_error_without_the_password(server, uri, said):
    """P10."""
    login = Login(uri.format(port=server.port))
    with pytest.raises(StoreError) as caught:
        ORDERS.now(login)
    assert said in caught.value.message
    assert PASSWORD not in "".join(traceback.format_exception(caught.value)) + repr(login)


def test_a_server_that_stops_answering_is_an_error_that_names_it_without_its_login(server, caplog):
    """Nothing is closed: the time before 30 never comes."""
    login = Login(f"{server.uri}?silence_seconds_max=1")
    with pytest.raises(StoreError) as caught:
        list(ORDERS.between(login, 20, 30))
    assert f"127.0.0.1:{server.port}: the server has said nothing for 1 s" in caught.value.message
    assert "Nothing was lost" in caught.value.hint
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(secret in shown for secret in (USER, PASSWORD))
    assert not caplog.records, "it was not asked to roll back"
    server.relation.put(30)  # so that the server's side ends


def test_silence_is_counted_from_the_last_word():
    now = 0.0

    def waits() -> Generator[str, int, str]:
        for _ in range(10):
            yield "read"
        return "rows"

    watched = heard(waits(), 60, lambda: TimeoutError("silent"), lambda: now)
    assert next(watched) == "read"
    for seconds, ready in ((59, 0), (0, 1), (59, 0), (0, 1), (59, 0)):
        now += seconds
        assert watched.send(ready) == "read"
    now += 1
    with pytest.raises(TimeoutError):
        watched.send(0)


def test_what_was_waited_for_comes_through():
    def waits() -> Generator[str, int, str]:
        assert (yield "read") == 1
        return "rows"

    watched = heard(waits(), 60, TimeoutError)
    next(watched)
    with pytest.raises(StopIteration) as ended:
        watched.send(1)
    assert ended.value.value == "rows"


@pytest.mark.parametrize("more,idle", [("", 30), ("?keepalives_idle=7", 7)])
def test_a_machine_that_is_gone_is_noticed_by_keepalives(server, more, idle):
    with Login(f"{server.uri}{more}").session() as cursor:
        with socket.socket(fileno=socket.dup(cursor.connection.fileno())) as copy:
            assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle


@pytest.mark.parametrize("more", ["?silence_seconds_max=7", "?silence_seconds_max=7&sslmode=prefer"])
def test_silence_is_ours_and_the_rest_of_the_uri_is_the_drivers(server, more):
    assert ORDERS.now(Login(server.uri + more)) == 19
    assert ORDERS.now(Login(f"{server.uri}?sslmode=prefer&silence_seconds_max=7")) == 19


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "", "long"])
def test_a_silence_that_is_no_number_of_seconds_is_refused(value):
    with pytest.raises(ConfigError, match="silence_seconds_max"):
        ORDERS.now(
            Login(f"postgresql://reader:{PASSWORD}@127.0.0.1:1/materialize?silence_seconds_max={value}")
        )


def test_a_relation_that_is_not_there_is_said_in_the_servers_words(server):
    with pytest.raises(StoreError, match="unknown catalog item"):
        Subscription.of("orders", None).now(Login(server.uri))


def test_names_are_quoted_and_a_query_stands_in_parentheses():
    assert Subscription.of('public.a"; DROP TABLE b', None).relation == '"public"."a""; DROP TABLE b"'
    assert Subscription.of(None, "SELECT 1;").relation == "(SELECT 1)"
    for name, query in ((None, None), ("a", "SELECT 1"), ("a..b", None)):
        with pytest.raises(ConfigError):
            Subscription.of(name, query)


def test_columns_are_described_by_the_server(server):
    kinds = {16: "boolean", 17: "binary", 1082: "date", 1083: "time", 1184: "timestamptz", 2950: "uuid"}
    server.relation.columns = [(f"c{number}", number, -1) for number in kinds]
    server.relation.columns.append(("n", 1700, ((39 << 16) | 4) + 4))
    table = describe(Login(server.uri), ORDERS, {}, ["c2950"])
    assert [column.type for column in table.columns] == [*kinds.values(), "decimal(38,4)"]
    assert table.key == ("c2950",)


@pytest.mark.parametrize("number,said", [(1700, "numeric without a scale"), (1007, "Materialize's own text")])
def test_a_column_without_a_place_is_refused_until_it_is_said_what_it_shall_be(server, number, said):
    server.relation.columns = [("a", number, -1)]
    with pytest.raises(BadColumns, match=said):
        describe(Login(server.uri), ORDERS, {}, [])
    assert describe(Login(server.uri), ORDERS, {"a": "string"}, []).column("a").type == "string"
    with pytest.raises(ConfigError, match="own text"):
        Shape("a", (("a", "list<int>"),))


def test_values_are_read_as_postgresql_prints_them():
    printed = {
        "boolean": ("t", True),
        "int": ("-7", -7),
        "long": ("9223372036854775807", 2**63 - 1),
        "double": ("-Infinity", float("-inf")),
        "float": ("1.5", 1.5),
        "decimal(10,2)": ("1.5", "1.50"),
        "date": ("2026-11-16", "2026-11-16"),
        "time": ("12:34:56.789", 45_296_789_000),
        "timestamp": ("2026-11-16 12:34:56.789", "2026-11-16 12:34:56.789000"),
        "timestamptz": ("2026-11-16 12:34:56.789+00", "2026-11-16 12:34:56.789000+00:00"),
        "string": ("", ""),
        "uuid": ("00000000-0000-0000-0000-000000000007", b"\0" * 15 + b"\7"),
        "binary": ("\\x6869", b"hi"),
    }
    shape = Shape("t", tuple((kind, kind) for kind in printed))
    empty = (None,) * len(printed)
    batch = shape.changes(
        [("7", "f", "1", *(text for text, _ in printed.values())), ("7", "f", "-2", *empty)]
    )
    one, two = batch.to_pylist()
    assert one["error"] is None
    for kind, (_, value) in printed.items():
        found = one["row"][kind]
        assert (found if isinstance(found, type(value)) else str(found)) == value, kind
    assert (two["diff"], set(two["row"].values())) == (-2, {None})


def test_a_value_that_its_type_does_not_take_is_an_error_of_its_row():
    shape = Shape("t", (("id", "long"), ("at", "timestamp"), ("on", "boolean")))
    rows = [("7", "f", "1", str(n), "infinity" if n == 2 else "2026-11-16 00:00:00", "t") for n in range(4)]
    found = shape.changes([*rows, ("7", "f", "1", "x", None, "yes")]).to_pylist()
    assert [row["error"] for row in found] == [
        None,
        None,
        "column 'at': infinity is no timestamp",
        None,
        "column 'id': x is no long",
    ]
    assert found[2]["raw"] == '{"id": "2", "at": "infinity", "on": "t"}'
    assert found[3]["raw"] is None


def test_another_number_of_columns_than_known_is_refused():
    with pytest.raises(ConfigError, match="has 1 columns, and 2 are known"):
        SHAPE.changes([("7", "f", "1", "1")])


def test_a_password_in_an_option_is_refused_and_one_by_its_variable_is_taken(server, monkeypatch):
    """P10: Spark shows options in its plans."""
    from calve.source.materialize.datasource import Materialize

    said = {"object": "public.orders", "columns": '[["id", "long"], ["note", "string"]]'}
    with pytest.raises(ConfigError, match="has a password") as caught:
        Materialize({**said, "uri": server.uri}).schema()
    assert PASSWORD not in str(caught.value)
    bare = server.uri.replace(f":{PASSWORD}", "")
    named = {**said, "uri": bare, "password_env": "CALVE_TEST_MZ_PASSWORD"}
    with pytest.raises(ConfigError, match="a variable that the environment does not have"):
        Materialize(named).schema()
    monkeypatch.setenv("CALVE_TEST_MZ_PASSWORD", PASSWORD)
    reader = Materialize(named).streamReader(Materialize(named).schema())
    assert (reader.initialOffset(), reader.latestOffset()) == ({"upto": None}, {"upto": 20})
    assert reader.partitions({"upto": 20}, {"upto": 20}) == []
    (task,) = reader.partitions({"upto": 15}, {"upto": 20})
    rows = pa.Table.from_batches(list(reader.read(task))).to_pylist()
    assert [(row["at"], row["diff"], row["mark"]) for row in rows] == [
        (15, -1, None),
        (15, 1, None),
        (None, None, 20),
    ]


@pytest.mark.parametrize(
    "options,said",
    [
        ({"objekt": "a"}, "no option 'objekt'"),
        ({"columns": "[[1]]", "uri": "postgresql://h/d"}, "the option columns"),
        ({"columns": "[]"}, "nothing says where Materialize is"),
    ],
    ids=["unknown", "columns", "uri"],
)
def test_options_that_are_wrong_are_refused_by_name(options, said):
    from calve.source.materialize.datasource import Materialize

    with pytest.raises(ConfigError, match=said):
        Materialize(options).schema()
