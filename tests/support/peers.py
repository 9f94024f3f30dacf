"""Statements of peers, as their documents print them: syntax, with comments of our own where one has some.

    Printed ──forms──▶ a text for each alternative, as calve reads it
            ──told───▶ the same with values of this machine, for hosts, paths, names and secrets

Materialize and LaminarDB print statements, and CockroachDB the URL of a sink. What is cut short by
an ellipsis (`CREATE SINK TABLE ... WITH (connector = 'iceberg', ...)`) is none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

_CHOICE = re.compile(r"'[^']*'(?: \| '[^']*')+")


@dataclass(frozen=True, slots=True)
class Printed:
    """A statement of a peer's documentation."""

    peer: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.peer}:{self.line}"

    @property
    def forms(self) -> list[str]:
        """One text for each alternative: a choice is printed as 'rest' | 's3table'."""
        plain = _CHOICE.split(self.text)
        choices = [found.split(" | ") for found in _CHOICE.findall(self.text)]
        return [
            "".join(itertools.chain(*itertools.zip_longest(plain, chosen, fillvalue="")))
            for chosen in itertools.product(*choices)
        ]

    def told(self, values: Mapping[str, str], *, form: int = 0, more: Mapping[str, str] | None = None) -> str:
        """One of its forms with other texts in place of what is printed, and with `more` options."""
        text = self.forms[form].strip().rstrip(";")
        for printed, local in values.items():
            assert printed in text, f"{self} does not print {printed}"
            text = text.replace(printed, local)
        said = "".join(f" {name} = {value}," for name, value in (more or {}).items())
        head, opened, options = text.partition("(")
        return f"{head}{opened}{said}{options};\n"


CATALOG = Printed(
    "Materialize",
    72,
    """CREATE CONNECTION iceberg_catalog_connection TO ICEBERG CATALOG (
    TYPE = 'rest' | 's3table', -- both of them
    URI = 'https://my.awesome.cat:8081/api/catalog', -- of rest
    USER  = 'materialize', -- of rest
    PASSWORD SECRET = iceberg_pass, -- of rest
    AWS CONNECTION = "...", -- of s3table
    WAREHOUSE = '...', --- of s3table
)
""",
)
TYPED = Printed("Materialize", 81, "CREATE CONNECTION foo TO ICEBERG REST CATALOG")
AWS = Printed(
    "Materialize",
    89,
    """CREATE CONNECTION iceberg_s3_conn TO AWS (
    ACCESS KEY ID = "ABC123",
    SECRET ACCESS KEY = "....",
    REGION = "eu-west-1",
)
""",
)
SINK = Printed(
    "Materialize",
    99,
    """CREATE SINK iceberg_sink
FROM my_favorite_materialized_view
TO ICEBERG CATALOG iceberg_catalog_connection
USING AWS CONNECTION iceberg_s3_conn
NAMESPACE "namespace_name" TABLE "table_name"
WITH (
    COMMIT INTERVAL = '20m', -- of the source's time
);
""",
)
URL = Printed("CockroachDB", 106, "iceberg://<rest-endpoint>/<namespace>/<table>?warehouse=s3://…")
"""What stands behind INTO, not a statement."""
TRADES = Printed(
    "LaminarDB",
    1535,
    """-- append
CREATE SINK TABLE trade_archive
FROM processed_trades
WITH (
    connector = 'iceberg',
    'catalog.type' = 'rest',
    'catalog.uri' = 'http://iceberg-catalog:8181',
    'warehouse' = 's3://data-lake/warehouse',
    'namespace' = 'analytics.prod',
    'table.name' = 'trades',
    'partition.spec' = 'DAYS(event_time)',
    'delivery.guarantee' = 'exactly-once'
);
""",
)
ORDERS = Printed(
    "LaminarDB",
    1549,
    """-- Glue
CREATE SINK TABLE orders_iceberg
FROM enriched_orders
WITH (
    connector = 'iceberg',
    'catalog.type' = 'glue',
    'catalog.uri' = 'arn:aws:glue:us-east-1:123456789:catalog',
    'warehouse' = 's3://lakehouse/warehouse',
    'namespace' = 'analytics',
    'table.name' = 'orders',
    'partition.spec' = 'DAYS(order_time), BUCKET(16, customer_id)',
    'delivery.guarantee' = 'exactly-once',
    'storage.aws_region' = 'us-east-1'
);
""",
)
CUSTOMERS = Printed(
    "LaminarDB",
    1564,
    """-- upsert
CREATE SINK TABLE customer_snapshot
FROM customer_changes
WITH (
    connector = 'iceberg',
    'catalog.type' = 'rest',
    'catalog.uri' = 'http://polaris:8181',
    'warehouse' = 's3://data-lake/warehouse',
    'namespace' = 'analytics',
    'table.name' = 'customers',
    'write.mode' = 'upsert',
    'equality.delete.columns' = 'customer_id',
    'delivery.guarantee' = 'exactly-once'
);
""",
)
SENSORS = Printed(
    "LaminarDB",
    1579,
    """-- partitions
CREATE SINK TABLE sensor_data
FROM sensor_events
WITH (
    connector = 'iceberg',
    'catalog.type' = 'rest',
    'catalog.uri' = 'http://nessie:19120/api/v1',
    'warehouse' = 's3://iot-lake/warehouse',
    'namespace' = 'iot.sensors',
    'table.name' = 'readings',
    'partition.spec' = 'DAYS(event_time), IDENTITY(region), BUCKET(32, device_id)',
    'target.file.size' = '268435456',
    'schema.evolution' = 'true'
);
""",
)
OUTPUT = Printed(
    "LaminarDB",
    1594,
    """-- a folder
CREATE SINK TABLE dev_output
FROM test_stream
WITH (
    connector = 'iceberg',
    'catalog.type' = 'memory',
    'warehouse' = '/tmp/iceberg-warehouse',
    'namespace' = 'dev',
    'table.name' = 'output',
    'delivery.guarantee' = 'at-least-once'
);
""",
)

STATEMENTS = (CATALOG, TYPED, AWS, SINK, TRADES, ORDERS, CUSTOMERS, SENSORS, OUTPUT)
