"""Translate: a catalog as Iceberg's Spark runtime spells it, in the words of PyIceberg.

    spark.sql.catalog.lake.* ──▶ Description(type, uri, warehouse, properties, storage, table properties)

Both libraries have most names in common, so a name that the list does not have goes through as it is. The
list has those that differ. What only tunes Spark's side is left out; what would change which files are
written, where, or who may read them, and cannot be said in Python, is refused by name: it is never lost in
silence. Values are not shown: any of them may be a secret (P10).

docs/spark-catalogs.md is made from the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from calve.config.units import nearest
from calve.model.errors import ConfigError
from calve.runtime.spark.jdbc import sqlalchemy_uri


class Act(Enum):
    """What becomes of a property."""

    SAME = "the same"
    RENAMED = "renamed"
    READ = "read"
    LEFT = "left out"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Rule:
    """One property of Iceberg's Spark runtime. A name that ends with `*` stands for all that begin so."""

    spark: str
    act: Act
    pyiceberg: str = ""
    note: str = ""
    unless: tuple[str, ...] = ()
    """REFUSED: values, or ends of class names, that say nothing new and are left out."""

    def covers(self, name: str) -> bool:
        return name.startswith(self.spark[:-1]) if self.spark.endswith("*") else name == self.spark

    def allows(self, value: str) -> bool:
        """Whether a value of a refused property says only what is so anyway."""
        plain = value.strip()
        return plain.lower() in self.unless or any(
            plain.endswith(end) for end in self.unless if end.startswith(".")
        )


_TYPES = {"jdbc": "sql", "rest": "rest", "hive": "hive", "glue": "glue"}
"""Iceberg's types that PyIceberg has too, under its own names."""

_CLASSES = {
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
}

_NO_TYPES = {
    "hadoop": (
        "a Hadoop catalog has no server: it commits by renaming a file, which an object store does not do "
        "once and for all, and PyIceberg does not speak it",
        "Register the tables in a JDBC, REST, Hive or Glue catalog, which swaps a table's metadata at once.",
    ),
    "nessie": (
        "Nessie's own interface is not one that PyIceberg speaks",
        "Nessie answers Iceberg clients at …/iceberg: type=rest, uri=http://host:19120/iceberg. But look "
        "first whether yours keeps Iceberg tags: calve needs them for its progress.",
    ),
    "bigquery": (
        "BigQuery's metastore is not one that calve opens",
        "Use its Iceberg REST endpoint: type=rest.",
    ),
}

_READ, _SAME, _RENAMED, _LEFT, _REFUSED = Act.READ, Act.SAME, Act.RENAMED, Act.LEFT, Act.REFUSED
_UNENCRYPTED = "pyarrow, which writes the files, does not ask for it"

# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("type", _READ, "type", "`jdbc` is `sql`; `rest`, `hive`, `glue` are the same; without it, `hive`. "
         "`hadoop`, `nessie` and `bigquery` are refused"),
    Rule("catalog-impl", _READ, "type", "Iceberg's own classes, as their types; any other is refused"),
    Rule("uri", _READ, "uri", "`jdbc:sqlite:` and `jdbc:postgresql:` become SQLAlchemy's; for `hive`, "
         "`spark.hadoop.hive.metastore.uris` where it is left out"),
    Rule("warehouse", _SAME, "warehouse"),
    Rule("jdbc.user", _READ, "uri", "the login inside the uri"),
    Rule("jdbc.password", _READ, "uri", "the login inside the uri"),
    Rule("jdbc.init-catalog-tables", _RENAMED, "init_catalog_tables"),
    Rule("jdbc.schema-version", _LEFT, note="PyIceberg reads and writes V0 and V1; it migrates neither"),
    Rule("jdbc.strict-mode", _LEFT, note="namespaces are created before tables in any case"),
    Rule("jdbc.*", _READ, "uri", "settings of the JDBC driver, where Python's driver has the same; else "
         "refused"),
    Rule("credential", _SAME, "credential"),
    Rule("token", _SAME, "token"),
    Rule("oauth2-server-uri", _SAME, "oauth2-server-uri"),
    Rule("scope", _SAME, "scope"),
    Rule("audience", _SAME, "audience"),
    Rule("resource", _SAME, "resource"),
    Rule("prefix", _SAME, "prefix"),
    Rule("header.*", _SAME, "header.*"),
    Rule("token-*", _LEFT, note="PyIceberg renews tokens by itself"),
    Rule("rest.auth.type", _READ, "auth.type, rest.sigv4-enabled", "`none`, `oauth2`, `basic`, `sigv4`, "
         "`google`"),
    Rule("rest.auth.basic.username", _RENAMED, "auth.basic.username"),
    Rule("rest.auth.basic.password", _RENAMED, "auth.basic.password"),
    Rule("rest.auth.*", _REFUSED, note="PyIceberg has no such login"),
    Rule("rest.sigv4-enabled", _SAME, "rest.sigv4-enabled"),
    Rule("rest.signing-region", _SAME, "rest.signing-region"),
    Rule("rest.signing-name", _SAME, "rest.signing-name"),
    Rule("rest.access-key-id", _RENAMED, "client.access-key-id"),
    Rule("rest.secret-access-key", _RENAMED, "client.secret-access-key"),
    Rule("rest.session-token", _RENAMED, "client.session-token"),
    Rule("rest.client.proxy.*", _REFUSED, note="set HTTPS_PROXY in the driver's environment"),
    Rule("rest.client.tls.*", _REFUSED, note="a Java class"),
    Rule("rest.client.connection-timeout-ms", _SAME, "rest.client.connection-timeout-ms"),
    Rule("rest.client.socket-timeout-ms", _SAME, "rest.client.socket-timeout-ms"),
    Rule("rest.client.*", _LEFT),
    Rule("client.region", _SAME, "client.region"),
    Rule("client.assume-role.arn", _RENAMED, "client.role-arn"),
    Rule("client.assume-role.session-name", _RENAMED, "client.role-session-name"),
    Rule("client.assume-role.external-id", _RENAMED, "client.role-external-id"),
    Rule("client.assume-role.region", _LEFT),
    Rule("client.assume-role.timeout-sec", _LEFT),
    Rule("client.assume-role.*", _REFUSED, note="a role has an ARN, a session name and an external id"),
    Rule("client.factory", _REFUSED, note="a Java class", unless=(".AssumeRoleAwsClientFactory",
         ".AwsClientFactories$DefaultAwsClientFactory")),
    Rule("client.credentials-provider", _REFUSED, note="a Java class",
         unless=(".DefaultCredentialsProvider",)),
    Rule("client.credentials-provider.*", _REFUSED, note="settings of a Java class"),
    Rule("s3.endpoint", _SAME, "s3.endpoint"),
    Rule("s3.access-key-id", _SAME, "s3.access-key-id"),
    Rule("s3.secret-access-key", _SAME, "s3.secret-access-key"),
    Rule("s3.session-token", _SAME, "s3.session-token"),
    Rule("s3.region", _SAME, "s3.region"),
    Rule("s3.path-style-access", _READ, "s3.force-virtual-addressing", "the opposite of it"),
    Rule("s3.sse.type", _SAME, "s3.sse.type"),
    Rule("s3.sse.key", _SAME, "s3.sse.key"),
    Rule("s3.sse.md5", _LEFT, note="it follows from the key"),
    Rule("s3.multipart.part-size-bytes", _SAME, "s3.multipart.part-size-bytes"),
    Rule("s3.multipart.num-threads", _SAME, "s3.multipart.num-threads"),
    Rule("s3.delete-enabled", _SAME, "s3.delete-enabled"),
    Rule("s3.acl", _REFUSED, note="files would get the bucket's own"),
    Rule("s3.write.*", _REFUSED, note="files would have neither tags nor a storage class"),
    Rule("s3.access-points.*", _REFUSED, note="files would go to the bucket itself"),
    Rule("s3.remote-signing-enabled", _REFUSED, note="calve asks no server to sign", unless=("false",)),
    Rule("s3.*", _LEFT, note="uploads, retries, checksums of the Java client"),
    Rule("adls.auth.shared-key.account.name", _RENAMED, "adls.account-name"),
    Rule("adls.auth.shared-key.account.key", _RENAMED, "adls.account-key"),
    Rule("adls.token", _SAME, "adls.token"),
    Rule("adls.sas-token.*", _SAME, "adls.sas-token.*"),
    Rule("adls.connection-string.*", _RENAMED, "adls.connection-string", "the account's name is left out"),
    Rule("adls.read.*", _LEFT),
    Rule("adls.write.*", _LEFT),
    Rule("gcs.project-id", _SAME, "gcs.project-id"),
    Rule("gcs.oauth2.token", _SAME, "gcs.oauth2.token"),
    Rule("gcs.service.host", _SAME, "gcs.service.host"),
    Rule("gcs.encryption-key", _REFUSED, note=_UNENCRYPTED),
    Rule("gcs.decryption-key", _REFUSED, note=_UNENCRYPTED),
    Rule("gcs.channel.*", _LEFT),
    Rule("glue.id", _SAME, "glue.id"),
    Rule("glue.endpoint", _SAME, "glue.endpoint"),
    Rule("glue.skip-archive", _SAME, "glue.skip-archive"),
    Rule("glue.lakeformation-enabled", _REFUSED, note="PyIceberg asks Lake Formation for no login",
         unless=("false",)),
    Rule("table-default.*", _READ, "", "properties of a table that is created"),
    Rule("table-override.*", _READ, "", "properties of a table that is created; they win"),
    Rule("encryption.*", _REFUSED, note="tables would not be encrypted"),
    Rule("unique-table-location", _REFUSED, note="tables are created at their plain location",
         unless=("false",)),
    Rule("io-impl", _LEFT, note="files are written and read by pyarrow"),
    Rule("io.manifest.*", _LEFT),
    Rule("cache-enabled", _LEFT, note="nothing is cached"),
    Rule("cache.*", _LEFT),
    Rule("clients", _LEFT),
    Rule("client.pool.*", _LEFT),
    Rule("client-pool-cache-keys", _LEFT),
    Rule("client.refresh-credentials-*", _LEFT),
    Rule("lock*", _LEFT, note="a commit is a compare-and-swap of the catalog"),
    Rule("default-namespace", _LEFT, note="a table is named with its namespace"),
    Rule("metrics-reporter-impl", _LEFT),
    Rule("rest-metrics-reporting-enabled", _LEFT),
    Rule("view-default.*", _LEFT),
    Rule("view-override.*", _LEFT),
    Rule("app-id", _LEFT),
    Rule("app-name", _LEFT),
    Rule("user", _LEFT),
    Rule("use-nullable-query-schema", _LEFT),
)
# fmt: on
"""Looked through in this order: the first that covers a name counts."""

_STORES = ("s3.", "adls.", "gcs.", "client.")


@dataclass(slots=True)
class Description:
    """A catalog in PyIceberg's words; what was left open is None. Its values are secrets."""

    type: str | None = None
    uri: str | None = None
    warehouse: str | None = None
    properties: dict[str, str] = field(default_factory=dict, repr=False)
    storage: dict[str, str] = field(default_factory=dict, repr=False)
    table_properties: dict[str, str] = field(default_factory=dict, repr=False)
    table_overrides: dict[str, str] = field(default_factory=dict, repr=False)

    def put(self, name: str, value: str) -> None:
        """Keep a property under PyIceberg's name."""
        (self.storage if name.startswith(_STORES) else self.properties)[name] = value


def rule_of(name: str) -> Rule | None:
    """What the list says of a property's name."""
    return next((rule for rule in RULES if rule.covers(name)), None)


def from_spark(spark: Mapping[str, str], *, metastore: str | None = None) -> Description:
    """The catalog that properties without their `spark.sql.catalog.<name>.` describe. `metastore` is where
    the session's own Hive metastore is."""
    described = Description(type=_type(spark), uri=spark.get("uri"), warehouse=spark.get("warehouse"))
    for name, value in spark.items():
        rule = rule_of(name)
        if rule is None or (rule.act is Act.SAME and name != "warehouse"):
            described.put(name, value)
        elif rule.act is Act.RENAMED:
            described.put(rule.pyiceberg, value)
        elif rule.act is Act.REFUSED and not rule.allows(value):
            raise ConfigError(
                f"the property {name!r} cannot be followed from Python: {rule.note}",
                hint="Take it out, or describe the catalog by .catalog(name, type=…, uri=…) or in "
                "PyIceberg's own configuration, which come before the session's.",
            )
        elif name.startswith("table-default."):
            described.table_properties[name.removeprefix("table-default.")] = value
        elif name.startswith("table-override."):
            described.table_overrides[name.removeprefix("table-override.")] = value
    _read_login(spark, described)
    if described.type == "hive" and described.uri is None and metastore is not None:
        described.uri = metastore.partition(",")[0].strip()
    return described


def _type(spark: Mapping[str, str]) -> str:
    implementation = spark.get("catalog-impl")
    if implementation is not None:
        known = _CLASSES.get(implementation)
        if known is None:
            raise ConfigError(
                f"its catalog-impl {implementation[:120]!r} is a class that only Java can load",
                hint="Use one of Iceberg's own (type=rest, jdbc, hive, glue), or name the same catalog by "
                ".catalog(name, type=…, uri=…).",
            )
    else:
        known = spark.get("type", "hive").strip().lower()
    if known in _TYPES:
        return _TYPES[known]
    if known in _NO_TYPES:
        reason, hint = _NO_TYPES[known]
        raise ConfigError(reason, hint=hint)
    near = nearest(known, tuple(_TYPES))
    raise ConfigError(
        f"its type {known[:80]!r} is none of Iceberg's",
        hint=(f"Did you mean {near}? " if near else "") + f"It is one of {', '.join(_TYPES)}.",
    )


def _read_login(spark: Mapping[str, str], described: Description) -> None:
    """Properties that are not a name for a name."""
    if described.type == "sql" and described.uri is not None and described.uri.startswith("jdbc:"):
        settings = {
            name.removeprefix("jdbc."): value
            for name, value in spark.items()
            if (rule := rule_of(name)) is not None and rule.act is Act.READ and name.startswith("jdbc.")
        }
        described.uri = sqlalchemy_uri(described.uri, settings)
    if (path_style := spark.get("s3.path-style-access")) is not None:
        described.put("s3.force-virtual-addressing", str(path_style.strip().lower() != "true").lower())
    match spark.get("rest.auth.type", "none").strip().lower():
        case "none" | "oauth2":
            pass
        case "sigv4":
            described.put("rest.sigv4-enabled", "true")
        case "basic" | "google" as login:
            described.put("auth.type", login)
        case _:
            raise ConfigError(
                "its rest.auth.type is a class that only Java can load",
                hint="Use none, basic, oauth2, sigv4 or google.",
            )
