"""What statements mean: connections, sources and sinks in the words of the rooms that do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calve.config.sink import SinkConfig
from calve.model.errors import CalveError
from calve.sql.connect import catalog_options, kafka_options, postgres_uri
from calve.sql.defined import Definitions
from calve.sql.sink import SinkAsked, sink_of
from calve.sql.source import FeedFiles, Lines, Messages, Rows, Source, Subscribed, source_of

CANARY = "c4n4ry-6f1d"
FOLDER = Path("/pipelines")
ROWS = "CREATE SOURCE s (id long) FROM FILES (PATH = 'x');"


def define(text: str) -> Definitions:
    return Definitions.of_text(text, FOLDER)


def connection(text: str) -> dict[str, str]:
    found = define(text)
    return catalog_options(found.connections["c"], found)


def source(text: str) -> Source:
    found = define(text)
    return source_of(found.sources["s"], found)


def sink(text: str) -> SinkAsked:
    found = define(text)
    (one,) = found.sinks.values()
    return sink_of(one, found)


# ---------------------------------------------------------------- connections


def test_a_catalog_is_described_by_the_options_of_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", CANARY)
    found = connection(
        """CREATE SECRET p FROM ENV 'LAKE_PASSWORD';
        CREATE CONNECTION a TO AWS (ACCESS KEY ID = "ABC", SECRET ACCESS KEY = SECRET p, REGION "eu-west-1",
                                    ASSUME ROLE ARN = 'arn:aws:iam::1:role/x', ENDPOINT = 'http://s3');
        CREATE CONNECTION c TO ICEBERG CATALOG (TYPE = 'rest', URI = 'https://h:8081/api', USER = 'me',
            PASSWORD SECRET = p, WAREHOUSE = 'w', AWS CONNECTION = a, 'catalog.prop.header.x' = 'y',
            'storage.s3.region' = 'us-east-1')"""
    )
    assert found == {
        "catalog.type": "rest",
        "catalog.uri": "https://h:8081/api",
        "warehouse": "w",
        "catalog.prop.user": "me",
        "catalog.prop.password": CANARY,
        "catalog.prop.client.access-key-id": "ABC",
        "catalog.prop.client.secret-access-key": CANARY,
        "catalog.prop.client.region": "eu-west-1",
        "catalog.prop.client.role-arn": "arn:aws:iam::1:role/x",
        "storage.s3.endpoint": "http://s3",
        "catalog.prop.header.x": "y",
        "storage.s3.region": "us-east-1",
    }
    SinkConfig.from_options({"namespace": "n", "table.name": "t", **found})


@pytest.mark.parametrize("word", ["s3table", "s3tables", "S3Tables"])
def test_s3_tables_has_two_spellings(word: str) -> None:
    arn = "arn:aws:s3tables:eu-west-1:111122223333:bucket/b"
    found = connection(f"CREATE CONNECTION c TO ICEBERG CATALOG (TYPE = '{word}', WAREHOUSE = '{arn}')")
    assert found == {"catalog.type": "s3table", "warehouse": arn}


def test_folders_begin_where_the_pipeline_is() -> None:
    assert connection("CREATE CONNECTION c TO ICEBERG CATALOG ()") == {
        "warehouse": "/pipelines/calve-warehouse"
    }
    found = connection("CREATE CONNECTION c TO ICEBERG CATALOG (URI = 'sqlite:///x/c.db', WAREHOUSE = 'x')")
    assert found == {"catalog.uri": "sqlite:////pipelines/x/c.db", "warehouse": "/pipelines/x"}
    found = connection(
        "CREATE CONNECTION c TO ICEBERG CATALOG (TYPE = 'rest', URI = 'http://h', WAREHOUSE = 'x')"
    )
    assert found["warehouse"] == "x"  # a name that the server knows


def test_a_broker_with_a_login_and_a_server_with_one(tmp_path: Path) -> None:
    (tmp_path / "p").write_text('pass"word\\\n')
    found = define(
        f"""CREATE SECRET p FROM FILE '{tmp_path}/p';
        CREATE CONNECTION k TO KAFKA (BROKER 'h:9092', SASL MECHANISMS = 'PLAIN', SASL USERNAME = 'u',
                                      SASL PASSWORD = SECRET p, 'kafka.client.id' = 'x');
        CREATE CONNECTION p TO POSTGRES (HOST 'h', PORT 6875, USER 'a@b', PASSWORD SECRET p, DATABASE 'd')"""
    )
    assert kafka_options(found.connections["k"], found) == {
        "kafka.bootstrap.servers": "h:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="pass\\"word\\\\";',
        "kafka.client.id": "x",
    }
    assert postgres_uri(found.connections["p"], found) == "postgresql://a%40b:pass%22word%5C@h:6875/d"


# ---------------------------------------------------------------- sources


def test_each_origin_is_read_in_its_own_way() -> None:
    kafka = "CREATE CONNECTION k TO KAFKA (BROKER 'h:9092');"
    changefeed = source(
        """CREATE CONNECTION a TO AWS (REGION = 'x');
        CREATE SOURCE s (id long, total decimal(10,2)) FROM COCKROACHDB CHANGEFEED
            (URL = 's3://bucket/feed', TOPIC = 'orders', AWS CONNECTION = a, JOB ID = '7') KEY (id)"""
    )
    assert isinstance(changefeed, FeedFiles)
    assert (changefeed.url, changefeed.topics) == ("s3://bucket/feed", ("orders",))
    assert changefeed.storage == {"s3.region": "x"}
    assert changefeed.settings == {"job_id": "7"}
    assert changefeed.declared.key == ("id",)

    topic = source(f"{kafka} CREATE SOURCE s FROM COCKROACHDB CHANGEFEED (CONNECTION = k, TOPIC = 't')")
    assert isinstance(topic, Messages)
    assert (topic.topics, topic.envelope) == (("t",), "cockroachdb-wrapped")

    events = source(
        f"{kafka} CREATE SOURCE s FROM DEBEZIUM (CONNECTION = k, TOPICS = 'a.x, a.y', TRANSACTION TOPIC ='tx'"
        ", REGISTRY URL = 'http://r') ENVELOPE avro"
    )
    assert isinstance(events, Messages)
    assert (events.topics, events.envelope) == (("a.x", "a.y"), "debezium-avro")
    assert events.settings == {"transaction_topic": "tx", "registry": "http://r"}

    lines = source("CREATE SOURCE s FROM DEBEZIUM (PATH = 'events') KEY (id)")
    assert isinstance(lines, Lines)
    assert (lines.path, lines.topic, lines.envelope) == ("/pipelines/events", "s", "debezium")
    assert lines.declared.key == ("id",)

    rows = source(
        "CREATE SOURCE s (id long) FROM FILES (PATH = 'x', FORMAT = 'CSV', HEADER = true, FILES MAX = 1)"
    )
    assert isinstance(rows, Rows)
    assert (rows.format, rows.place) == ("csv", "/pipelines/x")
    assert rows.options == {"header": "true", "maxFilesPerTrigger": "1"}

    plain = source(
        f"{kafka} CREATE SOURCE s (id long) FROM KAFKA TOPIC (CONNECTION = k, TOPIC = 't') ENVELOPE NONE"
    )
    assert isinstance(plain, Rows)
    assert (plain.format, plain.place) == ("kafka", "t")

    live = source(
        """CREATE CONNECTION p TO POSTGRES (URI = 'postgresql://h/d');
        CREATE SOURCE s (total decimal(38,4)) FROM MATERIALIZE SUBSCRIBE (CONNECTION = p, OBJECT = 'v')
            KEY (total)"""
    )
    assert isinstance(live, Subscribed)
    assert (live.uri, live.relation, live.types) == ("postgresql://h/d", "v", {"total": "decimal(38,4)"})
    single = source(
        "CREATE SOURCE s (total decimal(38,4)) FROM MATERIALIZE SUBSCRIBE (URI = 'x', OBJECT = 'v') KEY (id)"
    )
    assert isinstance(single, Subscribed)
    assert single.key == ("id",)  # the list is of types: other columns are the server's


# ---------------------------------------------------------------- sinks


def test_all_forms_of_a_sink_come_to_the_same() -> None:
    lake = "CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rest', URI = 'http://h', WAREHOUSE = 'w');"
    into = f"{ROWS}{lake} CREATE SINK x FROM s"
    clauses = "KEY (id) MODE UPSERT PARTITION BY (day(ts), bucket(16, id)) WITH (TARGET FILE SIZE = '1MB')"
    forms = [
        sink(f"{into} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a.b', TABLE = 't') {clauses}"),
        sink(f'{into} TO ICEBERG CATALOG lake NAMESPACE "a.b" TABLE "t" {clauses}'),
        sink(
            f"""{ROWS} CREATE SINK TABLE x FROM s WITH (connector = 'iceberg', 'catalog.type' = 'rest',
            'catalog.uri' = 'http://h', 'warehouse' = 'w', 'namespace' = 'a.b', 'table.name' = 't',
            'write.mode' = 'upsert', 'equality.delete.columns' = 'id', 'catalog.name' = 'lake',
            'partition.spec' = 'day(ts), bucket(16, id)', 'target.file.size' = '1MB')"""
        ),
    ]
    configs = [
        SinkConfig.from_options({**one.options, "namespace": "a.b", "table.name": "t"}) for one in forms
    ]
    assert configs[0] == configs[1] == configs[2]
    assert {one.table for one in forms} == {"`lake`.`a`.`b`.`t`"}
    assert {one.checkpoint for one in forms} == {"/pipelines/calve-checkpoints/x"}


def test_a_url_is_a_place_and_settings_of_the_stream_are_apart() -> None:
    found = sink(
        f"""{ROWS} CREATE SINK "a b/c" FROM s INTO 'iceberg://h/n/t?warehouse=w' WITH
        (COMMIT INTERVAL = '20m', BAD ROWS = 'quarantine', BAD ROWS MAX = 7,
        TRIGGER INTERVAL = '10s', CHECKPOINT = 's3://b/c', TASKS = 3)"""
    )
    assert found.table == "iceberg://h/n/t?warehouse=w"
    assert (found.commit_interval, found.bad_rows, found.bad_rows_max) == ("20m", "quarantine", 7)
    assert (found.trigger, found.checkpoint, found.tasks) == ("10s", "s3://b/c", 3)
    assert found.options == {}
    assert sink(f"{ROWS} CREATE SINK \"a b/c\" FROM s INTO 'iceberg://h/n/t'").checkpoint.endswith(
        "/a%20b%2Fc"
    )


def test_what_is_asked_less_than_it_gets_is_told() -> None:
    found = sink(
        f"""{ROWS} CREATE SINK TABLE x FROM s WITH ('namespace' = 'n', 'table.name' = 't',
        'catalog.type' = 'sql', 'delivery.guarantee' = 'at-least-once',
        'maintenance.compaction' = 'false')"""
    )
    assert "delivery.guarantee" not in found.options
    assert "maintenance.compaction" not in found.options
    assert len(found.notes) == 2


def test_secrets_are_in_no_text_of_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """P10."""
    monkeypatch.setenv("IT", CANARY)
    text = """CREATE SECRET x FROM ENV 'IT';
        CREATE CONNECTION k TO KAFKA (BROKER 'h:1', SASL USERNAME 'u', SASL PASSWORD SECRET x);
        CREATE CONNECTION p TO POSTGRES (HOST 'h', PASSWORD = SECRET x);
        CREATE CONNECTION a TO AWS (SECRET ACCESS KEY = SECRET x, ACCESS KEY ID = 'k');
        CREATE CONNECTION c TO ICEBERG CATALOG (URI = 'http://h', TOKEN = SECRET x, AWS CONNECTION = a);
        CREATE SOURCE a FROM DEBEZIUM (CONNECTION = k, TOPIC = 't');
        CREATE SOURCE b FROM MATERIALIZE SUBSCRIBE (CONNECTION = p, OBJECT = 'o');
        CREATE SOURCE d FROM COCKROACHDB CHANGEFEED (URL = 's3://b', AWS CONNECTION = a);
        CREATE SINK e FROM a INTO ICEBERG CATALOG c (NAMESPACE = 'n', TABLE = 't') USING AWS CONNECTION a;"""
    found = define(text)
    made: list[Any] = [source_of(one, found) for one in found.sources.values()]
    made.append(sink_of(found.sinks["e"], found))
    assert CANARY in str(made[-1].options)  # it is there, for who opens the catalog
    assert CANARY not in repr(made) + repr(found)


WRONG = {
    "CREATE CONNECTION c TO ICEBERG CATALOG (TIPE = 'rest')": (
        "an Iceberg catalog has no option TIPE (line 1, column 41)",
        "Did you mean TYPE?",
    ),
    "CREATE CONNECTION a TO AWS (REGION 'x'); CREATE CONNECTION c TO ICEBERG CATALOG (AWS CONNECTION = a,"
    " REGION 'y')": ("AWS CONNECTION, and is given beside it", "Leave one"),
    "CREATE CONNECTION c TO ICEBERG CATALOG (PASSWORD 'a', PASSWORD SECRET = x)": (
        "'password' stands twice",
        "",
    ),
    "CREATE SECRET x FROM ENV 'NOT_SET_ANYWHERE';CREATE CONNECTION c TO ICEBERG CATALOG (TOKEN = SECRET x)": (
        "the connection 'c': the secret 'x' is kept in the variable NOT_SET_ANYWHERE, which is not set "
        "(line 1, column 85)",
        "Set NOT_SET_ANYWHERE, and export it,",
    ),
    "CREATE SECRET x FROM FILE 'nowhere'; CREATE CONNECTION c TO ICEBERG CATALOG (TOKEN = SECRET x)": (
        "kept in the file /pipelines/nowhere, which cannot be read: No such file",
        "Write it there",
    ),
    "CREATE SOURCE s FROM KAFKA TOPIC (BROKER = 'h', TOPIC = 't')": (
        "what the messages of 's' are",
        "ENVELOPE",
    ),
    "CREATE SOURCE s FROM DEBEZIUM (TOPIC = 't')": ("nothing says where the broker of 's' is", "CONNECTION"),
    "CREATE SOURCE s FROM DEBEZIUM (BROKER = 'h')": (
        "nothing says which topic 's' reads",
        "TOPIC = 'orders'",
    ),
    "CREATE SOURCE s FROM FILES (PATH = 'x')": ("'s' declares no columns", "CREATE SOURCE s (id long"),
    "CREATE SOURCE s (id long) FROM FILES (PATH = 'x', FORMAT = 'jsn')": (
        "its FORMAT is 'jsn'",
        "Did you mean json?",
    ),
    "CREATE SOURCE s (id long) FROM FILES ()": ("nothing says where the files of 's' are", "PATH"),
    "\n CREATE SOURCE s (\n  id long,\n  v lnog) FROM FILES (PATH = 'x')": (
        "the type 'lnog' is not known (line 4, column 5)\n      v lnog) FROM FILES (PATH = 'x')\n        ^",
        "Did you mean long?",
    ),
    "CREATE SOURCE s (id long primary key, x int) FROM FILES (PATH = 'x') KEY (x)": (
        "the key is id, and KEY says x",
        "",
    ),
    "CREATE SOURCE s FROM COCKROACHDB CHANGEFEED (URL = 's3://b') ENVELOPE bare": (
        "are wrapped",
        "Leave ENVELOPE",
    ),
    "CREATE SOURCE s FROM MATERIALIZE SUBSCRIBE (OBJECT = 'v')": (
        "nothing says where Materialize is",
        "POSTGRES",
    ),
    f"{ROWS} CREATE SINK x FROM s INTO 'iceberg://h/n/t' WITH (COMIT INTERVAL = '1m')": (
        "a sink has no option COMIT INTERVAL",
        "Did you mean COMMIT INTERVAL? docs/sql.md lists all.",
    ),
    "CREATE CONNECTION p TO POSTGRES (HST 'h'); CREATE SOURCE s FROM MATERIALIZE SUBSCRIBE (CONNECTION = p, "
    "OBJECT = 'v')": (
        "has no option HST",
        "Did you mean HOST? It has DATABASE, HOST, PASSWORD, PORT, SSL MODE, URI, USER.",
    ),
    f"{ROWS} CREATE SINK x FROM s INTO 'iceberg://h/n/t' WITH (NAMESPACE = 'n')": (
        "is said by INTO",
        "Leave it",
    ),
    f"{ROWS} CREATE SINK TABLE x FROM s WITH (connector = 'delta', namespace = 'n')": (
        "connector is 'delta'",
        "iceberg",
    ),
    f"{ROWS} CREATE SINK TABLE x FROM s WITH (connector = 'iceberg', namespace = 'n')": (
        "has no 'table.name'",
        "orders",
    ),
}


def understood(text: str) -> None:
    found = define(text)
    if "c" in found.connections:
        catalog_options(found.connections["c"], found)
    for relation in found.sources.values():
        source_of(relation, found)
    for asked in found.sinks.values():
        sink_of(asked, found)


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_meant_is_told_with_the_statement_and_what_to_write(text: str) -> None:
    message, hint = WRONG[text]
    with pytest.raises(CalveError) as error:
        understood(text)
    assert message in error.value.message
    assert hint in error.value.hint
