"""Options: what connections, sources and sinks take, by name. The one list of them.

    KNOWN ──names──▶ who reads a statement (connect.py, source.py, sink.py)
          └─rows───▶ the tables of docs/sql.md, which a test keeps current

A name is written with blanks or, in quotes, with dots: COMMIT INTERVAL, 'commit.interval'. A sink takes the
options of docs/options.md beside those that stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """An option of a statement."""

    name: str
    """As a person writes it, in small letters."""
    meaning: str
    also: tuple[str, ...] = ()
    """Other names for it."""
    to: str = ""
    """The name that who opens it knows; its own, where that is the same."""

    @property
    def taken(self) -> str:
        return self.to or self.name


Listing = tuple[Known, ...]


def names(*listings: Listing) -> dict[str, str]:
    """All names, the first of each option before its others, and what each is taken under."""
    every = [one for listing in listings for one in listing]
    found = {one.name: one.taken for one in every}
    return found | {name: one.taken for one in every for name in one.also}


def dotted(known: Mapping[str, str]) -> dict[str, str]:
    """The same names with dots in place of blanks."""
    return {name.replace(" ", "."): to for name, to in known.items()}


def spellings(name: str) -> set[str]:
    """All ways to write an option: with blanks, dots or dashes between its words, and by its other names."""
    wanted = plain(name)
    every = (one for listing in LISTINGS for one in listing)
    known = [one for one in every if wanted in map(plain, (one.name, one.taken))]
    others = {plain(other) for one in known for other in (one.name, *one.also)}
    return {wanted} | others | {plain(word) for word, to in SINK_WORDS.items() if plain(to) == wanted}


def plain(name: str) -> str:
    """A name, whatever stands between its words."""
    return name.lower().replace(" ", ".").replace("-", ".").replace("_", ".")


# ---------------------------------------------------------------- connections

_LOGIN: Listing = (
    Known("access key id", "The login's id.", to="access-key-id"),
    Known("secret access key", "Its key; name a SECRET.", to="secret-access-key"),
    Known("session token", "Of a login for a while.", to="session-token"),
    Known("region", "`eu-west-1`.", to="region"),
    Known("assume role", "The ARN of a role.", ("assume role arn",), "role-arn"),
)
CATALOG: Listing = (
    Known(
        "type",
        "`rest`, `s3tables` (or `s3table`), `glue`, `hive`, `sql`, `memory`. Left out, it follows from the "
        "URI; without one it is SQLite in the warehouse.",
    ),
    Known("uri", "Where the catalog is. Needed by rest and hive.", ("url",)),
    Known("warehouse", "Where tables go: a folder, a URI, an ARN, or a name that the server knows."),
    Known("credential", "`id:secret`, for OAuth2; name a SECRET."),
    Known("token", "A bearer token; name a SECRET."),
    Known("scope", "Of OAuth2."),
    Known("user", "Of basic authentication.", ("username",)),
    Known("password", "Its password; name a SECRET."),
    Known("aws connection", "A connection TO AWS, for catalogs and stores of AWS."),
    *_LOGIN,
    Known("endpoint", "The address of another store than AWS's own."),
)
AWS: Listing = (
    *(
        one if one.name != "session token" else Known(one.name, one.meaning, ("token",), one.to)
        for one in _LOGIN
    ),
    Known("assume role session name", "What the session is called.", to="role-session-name"),
    Known("external id", "What the role asks for.", to="role-external-id"),
    Known("profile", "A profile of AWS's own configuration.", to="profile-name"),
    Known("endpoint", "The address of another store than AWS's own."),
)
KAFKA: Listing = (
    Known(
        "broker",
        "**Needed.** `host:9092`, with commas between several.",
        ("brokers", "bootstrap servers"),
        "kafka.bootstrap.servers",
    ),
    Known(
        "security protocol",
        "`SASL_SSL` where there is a login, else `PLAINTEXT`.",
        to="kafka.security.protocol",
    ),
    Known(
        "sasl mechanism",
        "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; `PLAIN` where nothing is said.",
        ("sasl mechanisms",),
        "kafka.sasl.mechanism",
    ),
    Known("sasl username", "The login.", to="username"),
    Known("sasl password", "Its password; name a SECRET.", to="password"),
    Known(
        "ssl certificate authority",
        "A CA of your own, as PEM text; name a SECRET FROM FILE.",
        to="kafka.ssl.truststore.certificates",
    ),
    Known(
        "ssl certificate", "A client's certificate, as PEM text.", to="kafka.ssl.keystore.certificate.chain"
    ),
    Known("ssl key", "Its key, as PEM text; name a SECRET.", to="kafka.ssl.keystore.key"),
)
POSTGRES: Listing = (
    Known("uri", "`postgresql://user@host:6875/materialize`, in place of all others."),
    Known("host", "The server."),
    Known("port", "Its port."),
    Known("user", "The login.", ("username",)),
    Known("password", "Its password; name a SECRET."),
    Known("database", "The database."),
    Known("ssl mode", "`disable`, `require`, `verify-ca`, `verify-full`, as libpq has them.", ("sslmode",)),
)

# ---------------------------------------------------------------- sources

OTHER_COLUMNS = Known(
    "other columns", "`ignore` leaves out columns that were not declared.", to="other_columns"
)
ON_KAFKA: Listing = (
    Known("connection", "A connection TO KAFKA.", ("kafka connection",)),
    Known("broker", "`host:9092`, where there is no login.", ("brokers", "bootstrap servers")),
    Known("topic", "The topic, or several with commas between.", ("topics",)),
)
IN_FILES: Listing = (
    Known("path", "A folder or a URI.", ("url", "folder")),
    Known("topic", "What the messages are of; the name of the source, where nothing is said.", ("topics",)),
)
FORMAT = Known("format", "`json`, `csv`, `parquet` or `orc`; `json` where nothing is said.")
FILES_MAX = Known("files max", "How many files a micro-batch reads at most.", to="files_max")
HEADER = Known("header", "Of CSV: whether the first line has the names.")
JOB_ID = Known("job id", "The changefeed's job; every snapshot names it.", to="job_id")
COCKROACHDB: Listing = (
    Known("url", "The folder of a changefeed's files: `s3://bucket/feed`.", ("path", "folder"), "path"),
    *ON_KAFKA,
    Known("aws connection", "A connection TO AWS, to read the files with."),
    JOB_ID,
    FILES_MAX,
    OTHER_COLUMNS,
)
OF_DEBEZIUM: Listing = (
    Known("transaction topic", "Batches end where transactions do.", to="transaction_topic"),
    Known("toast", "`keep`: take a value that was not sent from where it is known."),
    Known("truncates", "`skip`: leave truncates out instead of stopping."),
    Known("infinity", "`null`: infinite times are null instead of refused."),
    Known("placeholder", "What the connector sends for such a value, where it is not Debezium's own."),
    Known("decimals", "`decimal.handling.mode` of the connector, without schemas: `precise`, `string`, …"),
    Known("times", "`time.precision.mode` of the connector, without schemas: `adaptive`, `connect`, …"),
    Known("registry", "The address of a schema registry, for `ENVELOPE avro`.", ("registry url",)),
    Known("compacted", "`allow`: read a compacted topic, which may lack deletes."),
)
MATERIALIZE: Listing = (
    Known("connection", "A connection TO POSTGRES.", ("postgres connection",)),
    Known("uri", "`postgresql://…`, in its place."),
    Known("object", "A table, view or source of Materialize.", ("relation", "view", "table", "name")),
    Known("query", "A query, in its place."),
)

# ---------------------------------------------------------------- sinks

STREAM: Listing = (
    Known(
        "commit interval",
        "Batches end at multiples of it in source time: `1m`; what is there when a run starts becomes one "
        "batch. Without it each resolved timestamp, or each "
        "micro-batch that moves the frontier, ends one.",
    ),
    Known(
        "checkpoint",
        "Its folder; `calve-checkpoints/<sink>` beside the pipeline, where nothing is said.",
        ("checkpoint location", "checkpointlocation", "checkpointLocation"),
    ),
    Known("trigger interval", "How often the source is asked for more; `5s`. Not with `--once`."),
    Known("bad rows", "`fail`, or `quarantine`: rows that do not fit go to a table beside.", ("on bad row",)),
    Known("bad rows max", "How many rows of a micro-batch may go there; more stop the sink."),
    Known(
        "frontier",
        "Of plain rows: `maximum`, the greatest time so far. The time is the first column of SEQUENCE BY.",
    ),
    Known("frontier delay", "How far behind the greatest time a change may come: `10s`."),
    Known("tasks", "How many tasks share the keys."),
    Known("replaces checkpoint", "The id of a checkpoint that was lost, as the error names it."),
)

LISTINGS = (
    CATALOG,
    AWS,
    KAFKA,
    POSTGRES,
    COCKROACHDB,
    IN_FILES,
    (FORMAT, HEADER),
    OF_DEBEZIUM,
    MATERIALIZE,
    STREAM,
)
SINK_WORDS = {"sort by": "sort.order", "mode": "write.mode"}
"""Words of SQL for options of docs/options.md."""
