"""Errors of a pipeline that only Spark or a table can tell, as a person reads them: the whole text.

The commands run in this process, with the session of the suite. Those that need no Spark are in
tests/unit/cli/test_pipeline_errors.py.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calve.cli.app import app
from calve.runtime.spark import launch

pytestmark = pytest.mark.spark

LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');\n"
ORDERS = "CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders') KEY (id);\n"
INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')"
SINK = f"CREATE SINK s FROM orders {INTO};\n"
OF_VIEW = f"CREATE SINK s FROM v {INTO};\n"
KAFKA = "CREATE CONNECTION k TO KAFKA (BROKER 'h:1', SASL USERNAME 'u',\n  SASL PASSWORD = SECRET login);\n"


def asked(clauses: str) -> str:
    """A sink of orders, with more to it."""
    return LAKE + ORDERS + SINK.replace(";", f"\n  {clauses};")


@dataclass(frozen=True)
class Case:
    """A pipeline, and what `run` says of it."""

    pipeline: str
    error: str
    words: tuple[str, ...] = ("run", "--once")
    code: int = 1


CASES = {
    "no key": Case(
        LAKE + ORDERS.replace(" KEY (id)", "") + SINK.replace(";", " MODE UPSERT;"),
        """\
error CALVE-105 (BadKey): the sink 's': it is to replace rows (MODE UPSERT), and nothing says which columns \
tell them apart (line 3, column 103)
      G CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders') MODE UPSERT;
                                                               ^
hint: Write KEY (id) behind the source orders, or MODE APPEND to add rows alone.
""",
    ),
    "a partition by no column": Case(
        LAKE + ORDERS + SINK.replace(";", " PARTITION BY (day(created));"),
        """\
error CALVE-103 (BadPartition): the sink 's': day(created): there is no column 'created' (line 3, column \
117)
      ake (NAMESPACE = 'shop', TABLE = 'orders') PARTITION BY (day(created));
                                                               ^
hint: The columns are: id, status.
""",
    ),
    "a partition by no transform": Case(
        LAKE + ORDERS + SINK.replace(";", " PARTITION BY (dya(id));"),
        """\
error CALVE-103 (BadPartition): the sink 's': partition 'dya(id)', position 1: there is no transform 'dya' \
(line 3, column 117)
      ake (NAMESPACE = 'shop', TABLE = 'orders') PARTITION BY (dya(id));
                                                               ^
hint: Did you mean day? The transforms are identity, bucket, truncate, year, month, day, hour or void.
""",
    ),
    "a key that is no column": Case(
        LAKE + ORDERS + SINK.replace(";", " KEY (idd);"),
        """\
error CALVE-105 (BadKey): the sink 's': key ('equality.delete.columns') names 'idd', which is not among the \
columns of the stream (line 3, column 108)
      NECTION lake (NAMESPACE = 'shop', TABLE = 'orders') KEY (idd);
                                                               ^
hint: Did you mean 'id'?
""",
    ),
    "a view without the key": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT status FROM orders;\n" + OF_VIEW,
        """\
error CALVE-105 (BadKey): the view 'v' does not show 'id' as it is, which is part of the key of its source: \
nothing would say which row a change is of (line 3, column 13)
      CREATE VIEW v AS SELECT status FROM orders;
                  ^
hint: Add id to what it selects; under another name it may stand: id AS id_of_source.
""",
    ),
    "a view of nothing that is known": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id FROM oders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' reads 'oders', which is not defined before it (line 3, column \
33)
      CREATE VIEW v AS SELECT id FROM oders;
                                      ^
hint: Did you mean orders? A view reads one source, or one view. There is: orders.
""",
    ),
    "a view of a column that is none": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id, sttaus FROM orders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' cannot be understood: A column, variable, or function \
parameter with name `sttaus` cannot be resolved. Did you mean one of the following? [`status`, `id`] (line \
3, column 29)
      CREATE VIEW v AS SELECT id, sttaus FROM orders;
                                  ^
hint: It may name the columns of its source, and Spark's functions.
""",
    ),
    "a view that Spark cannot read": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id FROM orders WHERE AND status = 'x';\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' cannot be read: Syntax error at or near 'status' (line 3, \
column 50)
      CREATE VIEW v AS SELECT id FROM orders WHERE AND status = 'x';
                                                       ^
hint: It is in Spark's SQL; names with other marks stand in `backticks`.
""",
    ),
    "a view that joins": Case(
        LAKE
        + ORDERS
        + ORDERS.replace("SOURCE orders", "SOURCE more")
        + "CREATE VIEW v AS SELECT o.id FROM orders o JOIN more m ON o.id = m.id;\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' reads orders and more (line 4, column 49)
      CREATE VIEW v AS SELECT o.id FROM orders o JOIN more m ON o.id = m.id;
                                                      ^
hint: A view reads one source, or one view: two streams are joined where their state is kept, in \
CockroachDB, Materialize or Spark.
""",
    ),
    "a view that asks another question": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW v AS SELECT id FROM orders WHERE id > (SELECT max(id) FROM orders);\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' asks a table about a row (a subquery), and that may change \
without a change of the row (line 3, column 18)
      CREATE VIEW v AS SELECT id FROM orders WHERE id > (SELECT max(id) FROM o
                       ^
hint: Select from the source alone, row by row.
""",
    ),
    "a view that says something else to others": Case(
        LAKE + ORDERS + "CREATE VIEW v AS SELECT id, current_user() AS who FROM orders;\n" + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' has current_user(), which says something else of the same row \
at another time: the table would not be the source at any time (line 3, column 29)
      CREATE VIEW v AS SELECT id, current_user() AS who FROM orders;
                                  ^
hint: Use columns of the row, such as a time that it carries. In append mode any query goes.
""",
    ),
    "a folder that is not there": Case(
        LAKE + ORDERS.replace("PATH = 'orders'", "PATH = 'odrers'") + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': there is no folder HERE/odrers (line 2, column 59)
      REATE SOURCE orders (id long, status string) FROM FILES (PATH = 'odrers'
                                                               ^
hint: Create it; files may come later.
""",
    ),
    "a folder of a changefeed that is not there": Case(
        LAKE + "CREATE SOURCE orders FROM COCKROACHDB CHANGEFEED (URL = 'feed', TOPIC = 'orders');\n" + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': there is no folder HERE/feed (line 2, column 51)
      CREATE SOURCE orders FROM COCKROACHDB CHANGEFEED (URL = 'feed', TOPIC =
                                                        ^
hint: Create it; files may come later.
""",
    ),
    "a length of time that is none": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (TRIGGER INTERVAL = '1 fortnight');"),
        """\
error CALVE-100 (ConfigError): the sink 's': TRIGGER INTERVAL cannot be '1 fortnight' (line 3, column 109)
      ECTION lake (NAMESPACE = 'shop', TABLE = 'orders') WITH (TRIGGER INTERVA
                                                               ^
hint: Write a number with its unit, such as '10 seconds', '1 minute' or '1 hour 30 minutes'.
""",
    ),
    "an interval of a source that tells no time": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (COMMIT INTERVAL = '1 minute');"),
        """\
error CALVE-100 (ConfigError): the sink 's': COMMIT INTERVAL counts in the source's own time, and this \
source tells none (line 3, column 109)
      ECTION lake (NAMESPACE = 'shop', TABLE = 'orders') WITH (COMMIT INTERVAL
                                                               ^
hint: Say which column is the time: WITH (SEQUENCE BY = '…', FRONTIER = 'maximum', FRONTIER DELAY = '1m', \
…). Or leave it out: then each micro-batch is a snapshot, and TRIGGER INTERVAL says how often one comes.
""",
    ),
    "a word for bad rows misspelt": Case(
        LAKE + ORDERS + SINK.replace(";", " WITH (BAD ROWS = 'quarntine');"),
        """\
error CALVE-100 (ConfigError): the sink 's': BAD ROWS cannot be 'quarntine' (line 3, column 109)
      ECTION lake (NAMESPACE = 'shop', TABLE = 'orders') WITH (BAD ROWS = 'qua
                                                               ^
hint: Did you mean 'quarantine'? It is 'fail', which stops the sink, or 'quarantine', which puts them aside.
""",
    ),
    "a number of rows that has no effect": Case(
        asked("WITH (BAD ROWS MAX = 5)"),
        """\
error CALVE-100 (ConfigError): the sink 's': BAD ROWS MAX has no effect (line 4, column 9)
        WITH (BAD ROWS MAX = 5);
              ^
hint: Say BAD ROWS = 'quarantine' too.
""",
    ),
    "a frontier that is none": Case(
        asked("WITH (SEQUENCE BY = 'id', FRONTIER = 'watermark')"),
        """\
error CALVE-100 (ConfigError): the sink 's': FRONTIER is 'watermark' (line 4, column 29)
        WITH (SEQUENCE BY = 'id', FRONTIER = 'watermark');
                                  ^
hint: In SQL it is 'maximum': the greatest time so far, less FRONTIER DELAY.
""",
    ),
    "a frontier without a time": Case(
        asked("WITH (FRONTIER = 'maximum')"),
        """\
error CALVE-100 (ConfigError): the sink 's': there is a frontier (maximum), but no column of times that it \
speaks of (line 4, column 9)
        WITH (FRONTIER = 'maximum');
              ^
hint: Name the column first in sequence_by, or leave the frontier out: then the micro-batch is the batch.
""",
    ),
    "a delay that is none": Case(
        LAKE
        + ORDERS.replace("status string", "at timestamp")
        + SINK.replace(";", "\n  WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum', FRONTIER DELAY = 'soon');"),
        """\
error CALVE-100 (ConfigError): the sink 's': the frontier's delay cannot be 'soon' (line 4, column 51)
        WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum', FRONTIER DELAY = 'soon
                                                        ^
hint: Write a number with its unit, such as '10 seconds', '1 minute' or '1 hour 30 minutes'.
""",
    ),
    "a commit interval that is none": Case(
        LAKE
        + ORDERS.replace("status string", "at timestamp")
        + SINK.replace(
            ";", "\n  WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum', COMMIT INTERVAL = 'often');"
        ),
        """\
error CALVE-100 (ConfigError): the sink 's': commit_interval cannot be 'often' (line 4, column 51)
        WITH (SEQUENCE BY = 'at', FRONTIER = 'maximum', COMMIT INTERVAL = 'oft
                                                        ^
hint: Write a number with its unit, such as '10 seconds', '1 minute' or '1 hour 30 minutes'.
""",
    ),
    "too many tasks": Case(
        asked("WITH (TASKS = 10000000)"),
        """\
error CALVE-100 (ConfigError): the sink 's': tasks must be at most 1000000 (line 4, column 9)
        WITH (TASKS = 10000000);
              ^
hint: docs/options.md says what each option takes.
""",
    ),
    "tasks without a key": Case(
        LAKE + ORDERS.replace(" KEY (id)", "") + SINK.replace(";", "\n  WITH (TASKS = 3);"),
        """\
error CALVE-100 (ConfigError): the sink 's': tasks has no effect in append mode without a key: rows are not \
shuffled (line 4, column 9)
        WITH (TASKS = 3);
              ^
hint: Leave it out; repartition the stream itself for fewer files.
""",
    ),
    "a size that is none": Case(
        asked("WITH (TARGET FILE SIZE = '1 elephant')"),
        """\
error CALVE-100 (ConfigError): the sink 's': the option 'target.file.size' cannot be '1 elephant' (line 4, \
column 9)
        WITH (TARGET FILE SIZE = '1 elephant');
              ^
hint: Give a number of bytes, or one with a unit such as 64KB, 128MB or 1GB (a KB has 1024 bytes).
""",
    ),
    "a size that is too small": Case(
        asked("WITH (TARGET FILE SIZE = '1KB')"),
        """\
error CALVE-100 (ConfigError): the sink 's': target_file_bytes ('target.file.size') must be at least 64KB \
(line 4, column 9)
        WITH (TARGET FILE SIZE = '1KB');
              ^
hint: docs/options.md says what each option takes.
""",
    ),
    "two sizes that do not fit": Case(
        asked("WITH (MEMORY LIMIT = '32MB', 'parquet.row-group.size' = '64MB')"),
        """\
error CALVE-100 (ConfigError): the sink 's': parquet.row_group_bytes ('parquet.row-group.size') is \
67108864, more than the 33554432 of 'memory.limit' (line 4, column 32)
        WITH (MEMORY LIMIT = '32MB', 'parquet.row-group.size' = '64MB');
                                     ^
hint: Lower the one or raise the other.
""",
    ),
    "an order by no column": Case(
        asked("WITH (SEQUENCE BY = 'seq')"),
        """\
error CALVE-105 (BadKey): the sink 's': sequence_by ('sequence.by') names 'seq', which is not among the \
columns of the stream (line 4, column 9)
        WITH (SEQUENCE BY = 'seq');
              ^
hint: The columns are: id, status.
""",
    ),
    "a sort by no column": Case(
        asked("WITH (SORT BY = 'created desc')"),
        """\
error CALVE-103 (BadPartition): the sink 's': created desc nulls last: there is no column 'created' (line \
4, column 9)
        WITH (SORT BY = 'created desc');
              ^
hint: The columns are: id, status.
""",
    ),
    "a column that a dictionary cannot have": Case(
        asked("WITH ('parquet.dictionary' = 'sttaus')"),
        """\
error CALVE-100 (ConfigError): the sink 's': parquet.dictionary names 'sttaus', which is not among the \
table's columns (line 4, column 9)
        WITH ('parquet.dictionary' = 'sttaus');
              ^
hint: Did you mean 'status'?
""",
    ),
    "an id that is none": Case(
        asked("WITH (WRITER ID = '../x')"),
        """\
error CALVE-102 (BadName): the sink 's': '../x' cannot be a sink's id (line 4, column 9)
        WITH (WRITER ID = '../x');
              ^
hint: Use 1 to 128 letters, digits, '_', '-' or '.', without '..', not beginning with '.' or '-'.
""",
    ),
    "a property of the table that is a secret": Case(
        asked("WITH ('table.prop.my-token' = 'x')"),
        """\
error CALVE-100 (ConfigError): the sink 's': the table property 'my-token' may carry a secret, and \
everybody who reads the table can read it (line 4, column 9)
        WITH ('table.prop.my-token' = '*');
              ^
hint: Give logins as 'catalog.prop.…' or 'storage.…' options: they are never stored.
""",
    ),
    "an option that belongs to another mode": Case(
        asked("MODE UPSERT WITH ('changelog.op.column' = 'op')"),
        """\
error CALVE-100 (ConfigError): the sink 's': changelog_op_column ('changelog.op.column') has no effect in \
upsert mode (line 4, column 21)
        MODE UPSERT WITH ('changelog.op.column' = 'op');
                          ^
hint: Leave it out, or set the mode ('write.mode') that it belongs to.
""",
    ),
    "the second of two transforms": Case(
        asked("PARTITION BY (bucket(4, id), day(status))"),
        """\
error CALVE-103 (BadPartition): the sink 's': day(status): the column 'status' is string, which day does \
not take (line 4, column 32)
        PARTITION BY (bucket(4, id), day(status));
                                     ^
hint: day takes date, timestamp and timestamptz.
""",
    ),
    "a word inside of a transform": Case(
        asked("PARTITION BY (status, bucket(id))"),
        """\
error CALVE-103 (BadPartition): the sink 's': partition 'bucket(id)', position 8: bucket takes a number \
first, then the column: bucket(16, column) (line 4, column 32)
        PARTITION BY (status, bucket(id));
                                     ^
hint: Write a column, or identity(c), year(c), month(c), day(c), hour(c), bucket(16, c), truncate(4, c) or \
void(c), with commas between them.
""",
    ),
    "one transform too many": Case(
        asked("PARTITION BY (bucket(4, id), bucket(8, id))"),
        """\
error CALVE-103 (BadPartition): the sink 's': the partition has both bucket(4, id) and bucket(8, id) (line \
4, column 32)
        PARTITION BY (bucket(4, id), bucket(8, id));
                                     ^
hint: Keep one of the two: a column is cut once by time and once by each other transform.
""",
    ),
    "a key of fractions": Case(
        LAKE + ORDERS.replace("id long", "id double") + SINK,
        """\
error CALVE-105 (BadKey): the source 'orders': the key column 'id' is a double: equality means little there \
(line 2, column 83)
      double, status string) FROM FILES (PATH = 'orders') KEY (id);
                                                               ^
hint: Use an integer, a decimal or a string as the key.
""",
    ),
    "a key in append mode": Case(
        asked("MODE APPEND KEY (id)"),
        """\
error CALVE-105 (BadKey): the sink 's': append mode takes no key ('equality.delete.columns'): it writes \
every row, also one whose key it wrote before (line 4, column 20)
        MODE APPEND KEY (id);
                         ^
hint: Set the mode ('write.mode') to 'upsert' for one row a key, or leave the key out.
""",
    ),
    "another key than the source's": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW v AS SELECT * FROM orders;\n"
        + OF_VIEW.replace(";", "\n  KEY (status);"),
        """\
error CALVE-105 (BadKey): the sink 's': its KEY is status, and that of its source id (line 5, column 8)
        KEY (status);
             ^
hint: A change says which row of the source it is of, by the source's key: leave KEY out.
""",
    ),
    "a URL without a table": Case(
        ORDERS + "CREATE SINK s FROM orders INTO 'iceberg:///orders?warehouse=lake';",
        """\
error CALVE-102 (BadName): the sink 's': the iceberg:// URL does not name a namespace and a table (line 2, \
column 32)
      CREATE SINK s FROM orders INTO 'iceberg:///orders?warehouse=lake';
                                     ^
hint: Write iceberg://host:port/namespace/table?warehouse=…; docs/catalogs.md tells more.
""",
    ),
    "an unknown parameter of a URL": Case(
        ORDERS + "CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehuose=lake';",
        """\
error CALVE-101 (UnknownOption): the sink 's': there is no parameter 'warehuose' (line 2, column 32)
      CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehuose=lake';
                                     ^
hint: Did you mean 'warehouse'?
""",
    ),
    "a wrong value in a URL": Case(
        ORDERS
        + "CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehouse=lake&target.file.size=big';",
        """\
error CALVE-100 (ConfigError): the sink 's': the option 'target.file.size' cannot be 'big' (line 2, column \
32)
      CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehouse=lake&ta
                                     ^
hint: Give a number of bytes, or one with a unit such as 64KB, 128MB or 1GB (a KB has 1024 bytes).
""",
    ),
    "a secret of a source that is not set": Case(
        "CREATE SECRET login FROM ENV 'CALVE_NOT_SET';\n"
        + KAFKA
        + LAKE
        + "CREATE SOURCE orders FROM DEBEZIUM (CONNECTION = k, TOPIC = 'orders');\n"
        + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'k': the secret 'login' is kept in the variable \
CALVE_NOT_SET, which is not set (line 3, column 3)
        SASL PASSWORD = SECRET login);
        ^
hint: Set CALVE_NOT_SET, and export it, in the shell that starts calve.
""",
    ),
    "an envelope that is none": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders') KEY (id) ENVELOPE debezum;\n"
        + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': there is no envelope 'debezum' (line 2, column 79)
      (id long) FROM FILES (PATH = 'orders') KEY (id) ENVELOPE debezum;
                                                               ^
hint: Did you mean 'debezium'? There are: cockroachdb, cockroachdb-wrapped, cockroachdb-enriched, \
cockroachdb-enriched-schema, cockroachdb-bare, debezium, debezium-schemas, debezium-avro, materialize, \
materialize-upsert, materialize-debezium.
""",
    ),
    "a setting of messages that is none": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM DEBEZIUM (PATH = 'orders', TOAST = 'kep') KEY (id);\n"
        + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': toast cannot be 'kep' (line 2, column 64)
       SOURCE orders (id long) FROM DEBEZIUM (PATH = 'orders', TOAST = 'kep')
                                                               ^
hint: Say 'refuse' or 'keep'.
""",
    ),
    "columns of a source that may have several topics": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM COCKROACHDB CHANGEFEED (URL = 'orders') KEY (id);\n"
        + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': columns are declared for one table, and the source may \
have several topics (line 2, column 15)
      CREATE SOURCE orders (id long) FROM COCKROACHDB CHANGEFEED (URL = 'order
                    ^
hint: Name one: TOPIC = 'orders'. Give each topic a source of its own.
""",
    ),
    "a type that plain rows cannot have": Case(
        LAKE + ORDERS.replace("status string", "status uuid") + SINK,
        """\
error CALVE-104 (BadColumns): the source 'orders': column 'status' is uuid, and plain rows have no such \
type in Spark (line 2, column 32)
      CREATE SOURCE orders (id long, status uuid) FROM FILES (PATH = 'orders')
                                     ^
hint: Declare it string, as it comes.
""",
    ),
    "a frontier of a feed": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM DEBEZIUM (PATH = 'orders') KEY (id);\n"
        + SINK.replace(";", "\n  WITH (FRONTIER = 'maximum');"),
        """\
error CALVE-100 (ConfigError): the sink 's': a feed has its own frontier (line 4, column 9)
        WITH (FRONTIER = 'maximum');
              ^
hint: Leave FRONTIER out.
""",
    ),
    "a feed in append mode": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM DEBEZIUM (PATH = 'orders') KEY (id);\n"
        + SINK.replace(";", "\n  MODE APPEND;"),
        """\
error CALVE-100 (ConfigError): the sink 's': a feed has updates and deletes, and append mode would write \
them as rows (line 4, column 3)
        MODE APPEND;
        ^
hint: Say .mode('upsert') for the source's state, or .mode('changelog') for its changes.
""",
    ),
    "a view that groups, over several lines": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW v AS -- all\n  SELECT status, count(*) AS n\n  FROM orders\n  GROUP BY status;\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' groups rows (GROUP BY, DISTINCT or an aggregate): over a \
stream that would be of the rows of one micro-batch, not of all that there are (line 6, column 3)
        GROUP BY status;
        ^
hint: Let the sink write its source as it is, and query the table. Or keep that view where it is kept up to \
date, in CockroachDB, Materialize or Spark, and stream its changes.
""",
    ),
    "a view over a view that asks for the time": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW w AS SELECT id, now() AS n FROM orders;\nCREATE VIEW v AS SELECT id, n FROM w;\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'w' has now(), which says something else of the same row at \
another time: the table would not be the source at any time (line 3, column 29)
      CREATE VIEW w AS SELECT id, now() AS n FROM orders;
                                  ^
hint: Use columns of the row, such as a time that it carries. In append mode any query goes.
""",
    ),
    "a view that joins its source": Case(
        LAKE
        + ORDERS
        + "CREATE VIEW v AS SELECT o.id FROM orders o\n  JOIN orders m ON o.id = m.id;\n"
        + OF_VIEW,
        """\
error CALVE-200 (BadStatement): the view 'v' joins: over a stream that would be of the rows of one \
micro-batch, not of all that there are (line 4, column 3)
        JOIN orders m ON o.id = m.id;
        ^
hint: Let the sink write its source as it is, and query the table. Or keep that view where it is kept up to \
date, in CockroachDB, Materialize or Spark, and stream its changes.
""",
    ),
    "a catalog that is down": Case(
        LAKE.replace("WAREHOUSE = 'lake'", "URI = 'http://127.0.0.1:{port}'") + ORDERS + SINK,
        """\
error CALVE-500 (CatalogError): the sink 's' (line 3): no server listens at 127.0.0.1:{port}, or it hung up
hint: Is the server up? Look at the port in the catalog's URI, and whether it is http or https.
""",
    ),
    "a broker that is down": Case(
        LAKE
        + "CREATE SOURCE orders (id long) FROM DEBEZIUM (BROKER = '127.0.0.1:{port}', TOPIC = 'orders',\n"
        "  'kafka.default.api.timeout.ms' = '300', 'kafka.request.timeout.ms' = '250') KEY (id);\n" + SINK,
        """\
error CALVE-700 (BrokerError): the sink 's' (line 4): the broker at 127.0.0.1:{port} does not say what \
it has of topic 'orders': TimeoutException
hint: Nothing was written. Start the query again when the broker is there.
""",
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> Path:
    """A folder to run commands in, with the session of the suite."""

    @contextmanager
    def ours(*_: object, **__: object) -> Iterator[object]:
        yield spark

    monkeypatch.setattr(launch, "session", ours)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def said(case: Case, here: Path, port: int) -> tuple[str, int]:
    (here / "pipeline.sql").write_text(case.pipeline.replace("{port}", str(port)), "utf-8")
    done = CliRunner().invoke(app, list(case.words), env={"CALVE_DEBUG": None, "NO_COLOR": "1"})
    text = re.sub(rf"{re.escape(str(here))}\b", "HERE", done.output).replace(str(port), "{port}")
    return text, done.exit_code


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_a_pipeline_is_told_before_anything_is_made(
    here: Path, port: int, name: str
) -> None:
    case = CASES[name]
    text, code = said(case, here, port)
    assert text == case.error
    assert code == case.code
    assert not (here / "lake").exists()


AT_80 = """\
sink s, from v

  ! is refused
    refused    CALVE-200: the view 'v' cannot be understood: A column, variable,
               or function parameter with name `sttaus` cannot be resolved. Did
               you mean one of the following? [`status`, `id`] (line 3, column
               68)
                   LECT id, concat(status, status, status, status, sttaus) AS lo
                                                                   ^
    hint       It may name the columns of its source, and Spark's functions.

Plan: 1 sink is refused. Nothing was changed.
"""


def test_in_a_plan_a_caret_stays_below_its_letter_at_80_columns(here: Path) -> None:
    query = "SELECT id, concat(status, status, status, status, sttaus) AS long FROM orders"
    (here / "pipeline.sql").write_text(f"{LAKE}{ORDERS}CREATE VIEW v AS {query};\n{OF_VIEW}", "utf-8")
    env = {"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
    told = CliRunner().invoke(app, ["plan"], env=env).output
    assert told == AT_80
    lines = told.splitlines()
    below = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert lines[below - 1][lines[below].index("^") :].startswith("sttaus)")
    assert max(map(len, lines)) <= 80
    found = json.loads(CliRunner().invoke(app, ["plan", "--json"], env=env).output)["sinks"][0]["refused"]
    assert found["reason"].endswith(
        " (line 3, column 68)\n"
        "    W v AS SELECT id, concat(status, status, status, status, sttaus) AS long\n"
        "                                                             ^"
    )


def test_what_has_not_run_yet_cannot_be_compared_and_no_snapshot_is_found(here: Path, port: int) -> None:
    for words in (("verify", "pipeline.sql"), ("history", "pipeline.sql", "--at", "1")):
        text, code = said(Case(LAKE + ORDERS + SINK, "", words), here, port)
        assert ("has committed nothing yet" if words[0] == "verify" else "its sink has not run") in text
        assert code == 1
        assert not (here / "lake").exists()


def test_a_plan_tells_the_properties_that_a_run_sets(here: Path, port: int) -> None:
    (here / "orders" / "1.json").write_text(json.dumps({"id": 1, "status": "paid"}) + "\n")
    asked = SINK.replace(";", " WITH ('table.prop.write.parquet.page-row-limit' = '1000');")
    text, code = said(Case(LAKE + ORDERS + asked, "", ("plan", "--json")), here, port)
    told = json.loads(text)["sinks"][0]["tables"][0]["properties"]
    assert code == 2
    assert said(Case(LAKE + ORDERS + asked, ""), here, port)[1] == 0
    metadata = max(here.glob("lake/shop/orders/metadata/*.metadata.json"))
    found = json.loads(metadata.read_text())["properties"]
    assert {name: found.get(name) for name in told} == told
    assert {name for name in found if name.startswith("calve.sink.")} < told.keys()


def test_a_table_of_another_shape_is_told_by_plan_and_run_and_left_alone(here: Path, port: int) -> None:
    (here / "orders" / "1.json").write_text(json.dumps({"id": 1, "status": "paid"}) + "\n")
    assert said(Case(LAKE + ORDERS + SINK, ""), here, port)[1] == 0
    other = LAKE + ORDERS.replace("status string", "status long") + SINK
    before = sorted(here.rglob("lake/**/*"))
    words = "the data does not fit the table: column 'status': found long, wanted string"
    hint = (
        "Cast or rename the columns before they come here, or change the table by hand. Nothing was written."
    )
    text, code = said(Case(other, "", ("plan",)), here, port)
    assert text.startswith(
        "sink s, from orders\n\n  ! shop.orders is refused\n"
        f"    refused    CALVE-310: {words}\n    hint       {hint}\n"
    )
    assert text.endswith("\nPlan: 1 sink is refused. Nothing was changed.\n")
    assert code == 1
    run = (f"error CALVE-310 (SchemaMismatch): the sink 's' (line 3): {words}\nhint: {hint}\n", 1)
    assert said(Case(other, ""), here, port) == run
    assert sorted(here.rglob("lake/**/*")) == before


def test_what_a_person_should_know_of_a_sink_is_noted_when_it_runs(here: Path, port: int) -> None:
    asked = SINK.replace(";", " WITH ('delivery.guarantee' = 'at-least-once');")
    text, code = said(Case(LAKE + ORDERS + asked, ""), here, port)
    assert "s: 'at-least-once' was asked for: a stream is written exactly once, which is more." in text
    assert code == 0


def test_a_port_that_is_in_use_is_told_with_what_to_set(tmp_path: Path) -> None:
    """In a process of its own: it is the session that does not start. `doctor` says the same."""
    (tmp_path / "orders").mkdir()
    (tmp_path / "pipeline.sql").write_text(LAKE + ORDERS + SINK, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        settings = (f"spark.driver.port={number}", "spark.port.maxRetries=0")
        call = ["run", "--json", *(word for one in settings for word in ("--conf", one))]
        ended = subprocess.run(
            [sys.executable, "-m", "calve.cli.main", *call],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    words = f"Spark does not start: its sparkDriver cannot listen at port {number}, which is in use"
    assert json.loads(ended.stdout) == {
        "error": {
            "code": "CALVE-100",
            "name": "ConfigError",
            "message": words,
            "hint": "Another program listens there. Stop it, or let Spark take a free port: spark.ui.port=0 "
            "for SparkUI, spark.driver.port=0 for sparkDriver.",
        }
    }
    assert (ended.stderr, ended.returncode) == ("", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "pipeline.sql"]
