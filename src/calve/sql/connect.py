"""Connect: what connections mean, in the words of the rooms that open them.

ICEBERG CATALOG ─▶ options of a sink: catalog.*, warehouse, storage.* (docs/options.md)
AWS             ─▶ properties of a catalog's client, or of a store
KAFKA           ─▶ options of Spark's Kafka source
POSTGRES        ─▶ a URI

Values are as they are, secrets among them: they go into an object that hides them, and into nothing else.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from calve.config.catalog import CatalogConfig, CatalogType
from calve.config.units import nearest
from calve.model.errors import ConfigError
from calve.sql.asked import Asked, place
from calve.sql.defined import Definitions
from calve.sql.options import AWS, CATALOG, KAFKA, POSTGRES, Listing, names
from calve.sql.pointed import of_statement
from calve.sql.tree import CreateConnection, Target

_S3_TABLES = {"s3tables": "s3table", "s3 tables": "s3table"}
"""Other words for a type."""
_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^/:].*)", re.DOTALL)
_PROPERTIES = {one.name: one.taken for one in AWS if one.to}
_CHECKED = {"type": "catalog.type", "uri": "catalog.uri", "warehouse": "warehouse"}


def catalog_options(one: CreateConnection, definitions: Definitions) -> dict[str, str]:
    """A catalog, as options of a sink."""
    asked = Asked(
        one, definitions, _named(CATALOG), dotted=("catalog.prop.", "storage."), meaning="an Iceberg catalog"
    )
    with of_statement(one):
        kind = (asked.text("type") or "").strip().lower()
        uri_is_secret = asked.is_secret("uri")
        said = {
            "catalog.type": _S3_TABLES.get(kind, kind) or None,
            "catalog.uri": _sqlite(asked.text("uri"), definitions),
            "warehouse": asked.text("warehouse"),
            "catalog.prop.user": asked.text("user"),
            "catalog.prop.password": asked.text("password"),
            "catalog.prop.credential": asked.text("credential"),
            "catalog.prop.token": asked.text("token"),
            "catalog.prop.scope": asked.text("scope"),
        }
        warehouse = said["warehouse"]
        if warehouse is None and said["catalog.uri"] is None and kind in ("", "sql", "memory"):
            warehouse = "calve-warehouse"
        if warehouse is not None and (kind in ("", "sql", "memory", "hive") or "/" in warehouse):
            said["warehouse"] = place(warehouse, definitions.folder)
        aws = asked.connection("aws connection", Target.AWS)
        own = _aws_properties(asked)
        if aws is not None and own:
            raise ConfigError(
                "its AWS login is an AWS CONNECTION, and is given beside it as well",
                hint="Leave one of the two out.",
                about="aws connection",
            )
        properties = own if aws is None else aws_properties(aws, definitions)
        said |= {_of_client(name): value for name, value in properties.items()}
        found = {name: value for name, value in {**said, **asked.rest()}.items() if value is not None}
        if not (definitions.without_secrets and uri_is_secret):
            _check(found)
        return found


def _check(said: dict[str, str]) -> None:
    """Refuse a catalog that cannot be, in the words of a statement."""
    known = {name: said.get(option) for name, option in _CHECKED.items()}
    kind = known["type"]
    if kind is not None and kind not in [str(one) for one in CatalogType]:
        names = ["rest", "s3tables", "glue", "hive", "sql", "memory"]
        near = nearest(kind, names)
        raise ConfigError(
            f"its TYPE cannot be {kind!r}",
            hint=(f"Did you mean {near}? " if near else "") + f"It is one of: {', '.join(names)}.",
            about="type",
        )
    try:
        CatalogConfig(**known)
    except ConfigError as error:
        raise type(error)(_in_sql(error.message), hint=_in_sql(error.hint), about=error.about) from None


def _in_sql(words: str) -> str:
    """The same, with options by the names that they have in a statement."""
    for name, option in _CHECKED.items():
        words = words.replace(f"'{option}'", name.upper())
    return words.replace("catalog.uri", "URI").replace("catalog type and uri", "TYPE and URI")


def aws_properties(one: CreateConnection, definitions: Definitions) -> dict[str, str]:
    """An AWS login: region, keys, role, by the last part of their names in docs/catalogs.md."""
    with of_statement(one):
        return _aws_properties(Asked(one, definitions, _named(AWS), meaning="an AWS connection"))


def store_options(one: CreateConnection, definitions: Definitions) -> dict[str, str]:
    """An AWS login for the store alone, as options of a sink."""
    return {f"storage.s3.{name}": value for name, value in aws_properties(one, definitions).items()}


def kafka_options(one: CreateConnection, definitions: Definitions) -> dict[str, str]:
    """A broker, as options of Spark's Kafka source."""
    asked = Asked(one, definitions, names(KAFKA), dotted=("kafka.",), meaning="a Kafka connection")
    with of_statement(one):
        servers = asked.needed("kafka.bootstrap.servers", "BROKER 'host:9092'")
        user, password = asked.text("username"), asked.text("password")
        said = {"kafka.bootstrap.servers": servers, **asked.rest()}
        if (user is None) != (password is None):
            raise ConfigError(
                "a login has SASL USERNAME and SASL PASSWORD, and one of them is missing",
                hint="Give both, the password as SECRET.",
                about="username" if password is None else "password",
            )
        if user is not None and password is not None:
            mechanism = said.setdefault("kafka.sasl.mechanism", "PLAIN").upper()
            said.setdefault("kafka.security.protocol", "SASL_SSL")
            said["kafka.sasl.jaas.config"] = _jaas(mechanism, user, password)
        stores = {
            ".".join(name.split(".")[:3])
            for name, value in said.items()
            if name.startswith("kafka.ssl.") and value.startswith("-----BEGIN")
        }
        said |= {f"{store}.type": "PEM" for store in stores}
        return said


def postgres_uri(one: CreateConnection, definitions: Definitions) -> str:
    """A server that speaks PostgreSQL, as a URI with its login."""
    asked = Asked(one, definitions, names(POSTGRES), meaning="a PostgreSQL connection")
    with of_statement(one):
        uri = asked.text("uri")
        parts = asked.rest()
        if uri is not None:
            if parts:
                beside = next(iter(parts))
                raise ConfigError(
                    f"it has a URI, and {beside.upper()} beside it",
                    hint="Say it in the URI, or leave the URI out.",
                    about=beside,
                )
            return uri
        if "host" not in parts:
            raise ConfigError("nothing says where it is", hint="Write HOST 'host', or URI 'postgresql://…'.")
        login = ":".join(quote(parts[name], safe="") for name in ("user", "password") if name in parts)
        port = f":{parts['port']}" if "port" in parts else ""
        query = f"?{urlencode({'sslmode': parts['ssl mode']})}" if "ssl mode" in parts else ""
        at = f"{login}@" if login else ""
        return f"postgresql://{at}{parts['host']}{port}/{quote(parts.get('database', ''), safe='')}{query}"


def _named(listing: Listing) -> dict[str, str]:
    """Names, and the first name of the option that each is: what it is taken under here is said below."""
    first = {one.taken: one.name for one in listing}
    return {name: first[to] for name, to in names(listing).items()}


def _aws_properties(asked: Asked) -> dict[str, str]:
    found = {last: value for name, last in _PROPERTIES.items() if (value := asked.text(name)) is not None}
    endpoint = asked.text("endpoint")
    return found if endpoint is None else {**found, "endpoint": endpoint}


def _of_client(name: str) -> str:
    """An endpoint is a store's; all else is of the catalog and of the store."""
    return f"storage.s3.{name}" if name == "endpoint" else f"catalog.prop.client.{name}"


def _sqlite(uri: str | None, definitions: Definitions) -> str | None:
    found = None if uri is None else _SQLITE.fullmatch(uri)
    return uri if found is None else f"{found[1]}{place(found[2], definitions.folder)}"


def _jaas(mechanism: str, user: str, password: str) -> str:
    module = (
        "org.apache.kafka.common.security.plain.PlainLoginModule"
        if mechanism == "PLAIN"
        else "org.apache.kafka.common.security.scram.ScramLoginModule"
    )
    return f"{module} required username={_java(user)} password={_java(password)};"


def _java(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
