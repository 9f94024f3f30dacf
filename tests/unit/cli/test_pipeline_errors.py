"""Every error that a typo or a wrong server makes in a pipeline, as a person reads it: the whole text.

A change of wording is a change of this table. None of them needs Spark to be seen, and nothing was changed
when it is told. What only Spark can say is in tests/integration/spark/test_errors.py, what a real server says
of a login in tests/integration/test_login_errors.py.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calve.cli.app import app

CANARY = "c4n4ry-9d3b"
HERE = "WAREHOUSE = 'lake'"
LAKE = f"CREATE CONNECTION lake TO ICEBERG CATALOG ({HERE});\n"
ORDERS = "CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders') KEY (id);\n"
INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders')"
SINK = f"CREATE SINK s FROM orders\n  {INTO};\n"
CHECKED = SINK.replace(";", " WITH (CHECKPOINT = '/c');")
LOGIN = "CREATE SECRET login FROM ENV 'CALVE_NOT_SET';\n"
FAR = LAKE.replace(HERE, "TOKEN = SECRET login, URI = 'http://127.0.0.1:{port}'")
WHOLE = LAKE + ORDERS + SINK
STATUS = ("status", "pipeline.sql")
ENV = {"CALVE_DEBUG": None, "CALVE_EMPTY": "", "CALVE_NOT_SET": None, "NO_COLOR": "1"}


@dataclass(frozen=True)
class Case:
    """A pipeline, a command over it, and what it says."""

    pipeline: str
    error: str
    words: tuple[str, ...] = ("run",)
    code: int = 1


CASES = {
    # ---------------------------------------------------------------- words
    "an unknown statement": Case(
        "INSERT INTO orders VALUES (1);",
        """\
error CALVE-200 (BadStatement): 'INSERT' was not expected (line 1, column 1)
      INSERT INTO orders VALUES (1);
      ^
hint: Expected: CREATE, DESC, DESCRIBE, DROP, EXPLAIN or SHOW.
""",
    ),
    "a keyword misspelt": Case(
        LAKE + "CRAETE SOURCE orders FROM FILES ();",
        """\
error CALVE-200 (BadStatement): 'CRAETE' was not expected (line 2, column 1)
      CRAETE SOURCE orders FROM FILES ();
      ^
hint: Did you mean CREATE? Expected: CREATE, DESC, DESCRIBE, DROP, EXPLAIN or SHOW.
""",
    ),
    "a clause misspelt": Case(
        LAKE + ORDERS + SINK.replace("INTO", "INOT"),
        """\
error CALVE-200 (BadStatement): 'INOT' was not expected (line 4, column 3)
        INOT ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'ord
        ^
hint: Did you mean INTO? Expected: INTO or TO.
""",
    ),
    "a kind of source misspelt": Case(
        "CREATE SOURCE o FROM FILSE (PATH = 'o');",
        """\
error CALVE-200 (BadStatement): 'FILSE' was not expected (line 1, column 22)
      CREATE SOURCE o FROM FILSE (PATH = 'o');
                           ^
hint: Did you mean FILES? Expected: COCKROACHDB, DEBEZIUM, FILES, KAFKA or MATERIALIZE.
""",
    ),
    "a wrong quote": Case(
        LAKE + 'CREATE SECRET s FROM ENV "LAKE";',
        """\
error CALVE-200 (BadStatement): '"' was not expected (line 2, column 26)
      CREATE SECRET s FROM ENV "LAKE";
                               ^
hint: Expected: a text in single quotes.
""",
    ),
    "a curly quote": Case(
        "CREATE SECRET s FROM ENV ‘LAKE’;",
        """\
error CALVE-200 (BadStatement): '‘' was not expected (line 1, column 26)
      CREATE SECRET s FROM ENV ‘LAKE’;
                               ^
hint: That is a quote of print: write '. Expected: a text in single quotes.
""",
    ),
    "a quote that is not closed": Case(
        "CREATE SECRET s FROM ENV 'LAKE;\n",
        """\
error CALVE-200 (BadStatement): this quote is never closed (line 1, column 26)
      CREATE SECRET s FROM ENV '*****
                               ^
hint: Close it with another '.
""",
    ),
    "a quote that another one seems to close": Case(
        LAKE.replace("lake'", "lake") + ORDERS,
        """\
error CALVE-200 (BadStatement): this quote is never closed (line 2, column 73)
      rders (id long, status string) FROM FILES (PATH = 'orders'***********
                                                               ^
hint: Is it this one? On line 1 a text in quotes begins that goes on over several lines: perhaps it is its \
end that is missing.
""",
    ),
    "a comment that is not closed": Case(
        "/* all of it\n" + LAKE,
        """\
error CALVE-200 (BadStatement): this comment is never closed (line 1, column 1)
      /***********
      ^
hint: Close it with */.
""",
    ),
    "a comma too few": Case(
        "CREATE CONNECTION k TO KAFKA (BROKER 'a:1' SASL USERNAME 'u');",
        """\
error CALVE-200 (BadStatement): 'SASL' was not expected (line 1, column 44)
      CREATE CONNECTION k TO KAFKA (BROKER 'a:1' SASL USERNAME 'u');
                                                 ^
hint: Expected: ')' or ','.
""",
    ),
    "a parenthesis too few": Case(
        "CREATE CONNECTION k TO KAFKA (BROKER 'a:1';",
        """\
error CALVE-200 (BadStatement): the statement ends here (line 1, column 43)
      CREATE CONNECTION k TO KAFKA (BROKER 'a:1';
                                                ^
hint: Expected: ')' or ','.
""",
    ),
    "a semicolon too few": Case(
        LAKE.replace(";", "") + ORDERS,
        """\
error CALVE-200 (BadStatement): 'CREATE' was not expected (line 2, column 1)
      CREATE SOURCE orders (id long, status string) FROM FILES (PATH = 'orders
      ^
hint: Expected: the end of the statement.
""",
    ),
    "a question in a pipeline": Case(
        LAKE + "SHOW SINKS;",
        """\
error CALVE-200 (BadStatement): a pipeline defines what is to run, and this asks a question (line 2, \
column 1)
      SHOW SINKS;
      ^
hint: Ask it in the shell: calve sql pipeline.sql.
""",
    ),
    # ---------------------------------------------------------------- options
    "an unknown option of a catalog": Case(
        "CREATE CONNECTION lake TO ICEBERG CATALOG (\n  TYPE = 'rest',\n  WAREHOSE = 'w'\n);\n"
        + ORDERS
        + SINK,
        """\
error CALVE-200 (BadStatement): an Iceberg catalog has no option WAREHOSE (line 3, column 3)
        WAREHOSE = 'w'
        ^
hint: Did you mean WAREHOUSE? It has ACCESS KEY ID, ASSUME ROLE, AWS CONNECTION, CREDENTIAL, ENDPOINT, \
PASSWORD, REGION, SCOPE, SECRET ACCESS KEY, SESSION TOKEN, TOKEN, TYPE, URI, USER, WAREHOUSE.
""",
        STATUS,
    ),
    "an unknown option of an AWS connection": Case(
        "CREATE CONNECTION keys TO AWS (REGIN = 'x');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'glue', AWS CONNECTION = keys);\n" + ORDERS + SINK,
        """\
error CALVE-200 (BadStatement): an AWS connection has no option REGIN (line 1, column 32)
      CREATE CONNECTION keys TO AWS (REGIN = 'x');
                                     ^
hint: Did you mean REGION? It has ACCESS KEY ID, ASSUME ROLE, ASSUME ROLE SESSION NAME, ENDPOINT, EXTERNAL \
ID, PROFILE, REGION, SECRET ACCESS KEY, SESSION TOKEN.
""",
    ),
    "an unknown option of a source": Case(
        LAKE + "CREATE SOURCE orders (id long) FROM FILES (PAHT = 'orders');\n" + SINK,
        """\
error CALVE-200 (BadStatement): a source of files has no option PAHT (line 2, column 44)
      CREATE SOURCE orders (id long) FROM FILES (PAHT = 'orders');
                                                 ^
hint: Did you mean PATH? It has COMPACTED, DECIMALS, FILES MAX, FORMAT, HEADER, INFINITY, OTHER COLUMNS, \
PATH, PLACEHOLDER, REGISTRY, TIMES, TOAST, TOPIC, TRANSACTION TOPIC, TRUNCATES.
""",
    ),
    "an unknown option of a sink": Case(
        LAKE + ORDERS + SINK.replace(";", "\n  WITH (COMIT INTERVAL = '1m');"),
        """\
error CALVE-200 (BadStatement): a sink has no option COMIT INTERVAL (line 5, column 9)
        WITH (COMIT INTERVAL = '1m');
              ^
hint: Did you mean COMMIT INTERVAL? docs/sql.md lists all.
""",
    ),
    "an option twice": Case(
        "CREATE CONNECTION k TO KAFKA (BROKER 'a:1', BROKER 'b:1');",
        """\
error CALVE-200 (BadStatement): the option 'broker' stands twice (line 1, column 45)
      CREATE CONNECTION k TO KAFKA (BROKER 'a:1', BROKER 'b:1');
                                                  ^
hint: Leave one of the two out.
""",
    ),
    "an unknown option of what no sink uses": Case(
        LAKE + ORDERS + SINK + "CREATE CONNECTION other TO ICEBERG CATALOG (WAREHOSE = 'w');",
        """\
error CALVE-200 (BadStatement): an Iceberg catalog has no option WAREHOSE (line 5, column 45)
      CREATE CONNECTION other TO ICEBERG CATALOG (WAREHOSE = 'w');
                                                  ^
hint: Did you mean WAREHOUSE? It has ACCESS KEY ID, ASSUME ROLE, AWS CONNECTION, CREDENTIAL, ENDPOINT, \
PASSWORD, REGION, SCOPE, SECRET ACCESS KEY, SESSION TOKEN, TOKEN, TYPE, URI, USER, WAREHOUSE.
""",
        ("plan",),
    ),
    "a catalog of no type": Case(
        LAKE.replace(HERE, "TYPE = 'rset', URI = 'http://h'") + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': its TYPE cannot be 'rset' (line 1, column 44)
      CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rset', URI = 'http://
                                                 ^
hint: Did you mean rest? It is one of: rest, s3tables, glue, hive, sql, memory.
""",
    ),
    "a catalog without its address": Case(
        LAKE.replace(HERE, "TYPE = 'rest'") + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': a rest catalog lacks URI (line 1, column 44)
      CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rest');
                                                 ^
hint: Give what is missing, or leave TYPE and URI out for SQLite in a local folder.
""",
    ),
    "a sink without a table": Case(
        LAKE + ORDERS + "CREATE SINK s FROM orders INTO ICEBERG CATALOG lake (NAMESPACE = 'n');",
        """\
error CALVE-200 (BadStatement): nothing says which table the sink writes to (line 3, column 32)
      CREATE SINK s FROM orders INTO ICEBERG CATALOG lake (NAMESPACE = 'n');
                                     ^
hint: Write INTO ICEBERG CATALOG CONNECTION … (NAMESPACE = 'sales', TABLE = 'orders').
""",
    ),
    "a source without its place": Case(
        LAKE + ORDERS.replace("PATH = 'orders'", "") + SINK,
        """\
error CALVE-200 (BadStatement): nothing says where the files of 'orders' are (line 2, column 1)
      CREATE SOURCE orders (id long, status string) FROM FILES () KEY (id);
      ^
hint: Write PATH = '…'.
""",
    ),
    "a source without its broker": Case(
        LAKE + "CREATE SOURCE orders FROM DEBEZIUM (TOPIC = 'orders');\n" + SINK,
        """\
error CALVE-200 (BadStatement): nothing says where the broker of 'orders' is (line 2, column 1)
      CREATE SOURCE orders FROM DEBEZIUM (TOPIC = 'orders');
      ^
hint: Write CONNECTION = name, of a CREATE CONNECTION name TO KAFKA (BROKER 'host:9092'); or BROKER = \
'host:9092' where there is no login.
""",
    ),
    "a column type misspelt": Case(
        LAKE + ORDERS.replace("long", "lnog") + SINK,
        """\
error CALVE-104 (BadColumns): the type 'lnog' is not known (line 2, column 26)
      CREATE SOURCE orders (id lnog, status string) FROM FILES (PATH = 'orders
                               ^
hint: Did you mean long? Write string, or another type of docs/types.md.
""",
    ),
    "a key that is no column": Case(
        LAKE + ORDERS.replace("KEY (id)", "KEY (idd)") + SINK,
        """\
error CALVE-105 (BadKey): the source 'orders': the key names 'idd', which is not among the columns: id, \
status (line 2, column 81)
      d long, status string) FROM FILES (PATH = 'orders') KEY (idd);
                                                               ^
hint: Did you mean id?
""",
    ),
    "an address of another kind of catalog": Case(
        LAKE.replace(HERE, "TYPE = 'rest',\n  URI = 'thrift://h'") + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': a rest catalog cannot stand at thrift://h (line 2, \
column 3)
        URI = 'thrift://h');
        ^
hint: Its uri reads http://host:8181 or https://host/….
""",
    ),
    "two logins of a catalog": Case(
        "CREATE CONNECTION k TO AWS (REGION = 'x');\n"
        + LAKE.replace(HERE, "TYPE = 'glue', REGION = 'y',\n  AWS CONNECTION = k")
        + ORDERS
        + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': its AWS login is an AWS CONNECTION, and is given \
beside it as well (line 3, column 3)
        AWS CONNECTION = k);
        ^
hint: Leave one of the two out.
""",
    ),
    "half a login": Case(
        "CREATE CONNECTION k TO KAFKA (BROKER 'h:1', SASL USERNAME 'u');\n" + WHOLE,
        """\
error CALVE-100 (ConfigError): the connection 'k': a login has SASL USERNAME and SASL PASSWORD, and one of \
them is missing (line 1, column 45)
      CREATE CONNECTION k TO KAFKA (BROKER 'h:1', SASL USERNAME 'u');
                                                  ^
hint: Give both, the password as SECRET.
""",
        ("plan",),
    ),
    "a server that is named twice": Case(
        f"CREATE CONNECTION p TO POSTGRES (URI 'postgresql://u:{CANARY}@h/d', HOST 'h');\n" + WHOLE,
        """\
error CALVE-100 (ConfigError): the connection 'p': it has a URI, and HOST beside it (line 1, column 72)
      ION p TO POSTGRES (URI 'postgresql://*************@h/d', HOST 'h');
                                                               ^
hint: Say it in the URI, or leave the URI out.
""",
        ("plan",),
    ),
    "a broker that is named twice": Case(
        "CREATE CONNECTION k TO KAFKA (BROKER 'h:1');\n"
        "CREATE SOURCE o FROM DEBEZIUM (CONNECTION = k, BROKER = 'h:2', TOPIC = 't');\n" + WHOLE,
        """\
error CALVE-200 (BadStatement): the source 'o': the broker is named twice (line 2, column 48)
      CREATE SOURCE o FROM DEBEZIUM (CONNECTION = k, BROKER = 'h:2', TOPIC = '
                                                     ^
hint: Leave one of the two out.
""",
        ("plan",),
    ),
    "a format that is none": Case(
        LAKE + ORDERS.replace("PATH = 'orders'", "PATH = 'orders',\n  FORMAT = 'jsn'") + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': its FORMAT is 'jsn' (line 3, column 3)
        FORMAT = 'jsn') KEY (id);
        ^
hint: Did you mean json? There are: csv, json, orc, parquet.
""",
    ),
    "an option that has no effect": Case(
        LAKE + ORDERS.replace("PATH = 'orders'", "PATH = 'orders', TOAST = 'keep'") + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': TOAST has no effect on a source of this kind (line 2, \
column 76)
      rs (id long, status string) FROM FILES (PATH = 'orders', TOAST = 'keep')
                                                               ^
hint: Leave it out.
""",
    ),
    "an envelope that files do not have": Case(
        LAKE + "CREATE SOURCE orders FROM COCKROACHDB CHANGEFEED (URL = 's3://b')\n  ENVELOPE bare;\n" + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': the files of a changefeed are wrapped, and ENVELOPE is \
bare (line 3, column 12)
        ENVELOPE bare;
                 ^
hint: Leave ENVELOPE out: in files CockroachDB writes no other.
""",
    ),
    "two keys": Case(
        LAKE
        + ORDERS.replace("id long", "id long primary key").replace("KEY (id)", "\n  KEY (status)")
        + SINK,
        """\
error CALVE-100 (ConfigError): the source 'orders': its columns say that the key is id, and KEY says status \
(line 3, column 8)
        KEY (status);
             ^
hint: Say it once.
""",
    ),
    "columns that differ in capital letters": Case(
        LAKE + ORDERS.replace("status", "Id") + SINK,
        """\
error CALVE-102 (BadName): the source 'orders': the columns 'id' and 'Id' of the source differ in capital \
letters alone: Spark and most engines see one name (line 2, column 32)
      CREATE SOURCE orders (id long, Id string) FROM FILES (PATH = 'orders') K
                                     ^
hint: Rename one of them at the source, or leave it out there (CREATE CHANGEFEED … AS SELECT, Debezium's \
column.exclude.list).
""",
    ),
    "a number that is none": Case(
        LAKE + ORDERS + SINK.replace(";", "\n  WITH (TASKS = 'many');"),
        """\
error CALVE-100 (ConfigError): the sink 's': TASKS is 'many' (line 5, column 9)
        WITH (TASKS = 'many');
              ^
hint: Give a number.
""",
    ),
    "another number that is none": Case(
        LAKE + ORDERS + SINK.replace(";", "\n  WITH (BAD ROWS = 'quarantine', BAD ROWS MAX = 'x');"),
        """\
error CALVE-100 (ConfigError): the sink 's': BAD ROWS MAX is 'x' (line 5, column 34)
        WITH (BAD ROWS = 'quarantine', BAD ROWS MAX = 'x');
                                       ^
hint: Give a number.
""",
    ),
    "a connector that is none": Case(
        LAKE + ORDERS + "CREATE SINK TABLE t FROM orders WITH (namespace = 'n', connector = 'delta');\n",
        """\
error CALVE-100 (ConfigError): the sink 't': its connector is 'delta' (line 3, column 56)
      CREATE SINK TABLE t FROM orders WITH (namespace = 'n', connector = 'delt
                                                             ^
hint: There is one: connector = 'iceberg'.
""",
    ),
    "an option that contradicts a clause": Case(
        LAKE + ORDERS + SINK.replace(";", "\n  MODE UPSERT WITH ('write.mode' = 'append');"),
        """\
error CALVE-100 (ConfigError): the sink 's': 'write.mode' stands in WITH, and is said before it (line 5, \
column 21)
        MODE UPSERT WITH ('write.mode' = 'append');
                          ^
hint: Say it once.
""",
    ),
    # ---------------------------------------------------------------- names
    "a sink of an unknown source": Case(
        LAKE + ORDERS + SINK.replace("FROM orders", "FROM oders"),
        """\
error CALVE-200 (BadStatement): there is no source or view 'oders' (line 3, column 20)
      CREATE SINK s FROM oders
                         ^
hint: Did you mean orders? There is: orders.
""",
    ),
    "an unknown connection": Case(
        LAKE + ORDERS + SINK.replace("lake", "lkae"),
        """\
error CALVE-200 (BadStatement): there is no connection 'lkae' (line 4, column 35)
        INTO ICEBERG CATALOG CONNECTION lkae (NAMESPACE = 'shop', TABLE = 'ord
                                        ^
hint: Did you mean lake? There is: lake.
""",
    ),
    "a connection of another kind": Case(
        "CREATE CONNECTION lake TO KAFKA (BROKER 'a:1');\n" + ORDERS + SINK,
        """\
error CALVE-200 (BadStatement): the connection 'lake' leads TO KAFKA, and this needs one TO ICEBERG \
CATALOG (line 4, column 35)
        INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'ord
                                        ^
hint: No connection TO ICEBERG CATALOG is defined before this statement.
""",
    ),
    "an unknown secret": Case(
        LOGIN + "CREATE CONNECTION c TO AWS (TOKEN = SECRET lgoin);",
        """\
error CALVE-200 (BadStatement): there is no secret 'lgoin' (line 2, column 29)
      CREATE CONNECTION c TO AWS (TOKEN = SECRET lgoin);
                                  ^
hint: Did you mean login? There is: login.
""",
    ),
    "a name twice": Case(
        LAKE + LAKE,
        """\
error CALVE-200 (BadStatement): there is a connection 'lake' already (line 2, column 19)
      CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'lake');
                        ^
hint: Give the connection another name, or write CREATE … IF NOT EXISTS to keep the first.
""",
    ),
    "two sinks on one table": Case(
        LAKE + ORDERS + SINK + SINK.replace("SINK s", "SINK t"),
        """\
error CALVE-100 (ConfigError): the sink 't' writes lake.shop.orders under the name of the sink 's': each \
would stop the other (line 6, column 61)
      NTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'orders
                                                               ^
hint: Let one of them write another table, or give it a name of its own: WITH (WRITER ID = 't').
""",
    ),
    "two sinks on one checkpoint": Case(
        LAKE + ORDERS + CHECKED + CHECKED.replace("SINK s", "SINK t").replace("'orders')", "'other')"),
        """\
error CALVE-100 (ConfigError): the sink 't' has the checkpoint of the sink 's', /c (line 6, column 84)
      NECTION lake (NAMESPACE = 'shop', TABLE = 'other') WITH (CHECKPOINT = '/
                                                               ^
hint: Leave CHECKPOINT out of one of them: then each has a folder of its own.
""",
    ),
    "a catalog whose name is no name": Case(
        (LAKE + ORDERS + SINK).replace("CONNECTION lake", 'CONNECTION "la/ke"'),
        """\
error CALVE-102 (BadName): the sink 's': the catalog name 'la/ke' is refused: it has the character '/' \
(line 4, column 35)
        INTO ICEBERG CATALOG CONNECTION "la/ke" (NAMESPACE = 'shop', TABLE = '
                                        ^
hint: Use letters, digits, '_' or '-', at most 255 bytes, not beginning with a dot.
""",
    ),
    "a table whose name is no name": Case(
        LAKE + ORDERS + SINK.replace("TABLE = 'orders'", "\n    TABLE = 'or/ders'"),
        """\
error CALVE-102 (BadName): the sink 's': the table name 'or/ders' is refused: it has the character '/' \
(line 5, column 5)
          TABLE = 'or/ders');
          ^
hint: Use letters, digits, '_' or '-', at most 255 bytes, not beginning with a dot.
""",
    ),
    "a namespace whose name is no name": Case(
        LAKE + ORDERS + SINK.replace("'shop'", "'shop..eu'"),
        """\
error CALVE-102 (BadName): the sink 's': part 2 of the namespace 'shop..eu' is refused: it is empty (line \
4, column 41)
        INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop..eu', TABLE =
                                              ^
hint: Use letters, digits, '_' or '-', at most 255 bytes, not beginning with a dot.
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
        STATUS,
    ),
    "an unknown parameter of a URL": Case(
        ORDERS + "CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehuose=lake';",
        """\
error CALVE-101 (UnknownOption): the sink 's': there is no parameter 'warehuose' (line 2, column 32)
      CREATE SINK s FROM orders INTO 'iceberg:///shop/orders?warehuose=lake';
                                     ^
hint: Did you mean 'warehouse'?
""",
        STATUS,
    ),
    "a writer's id that is none": Case(
        LAKE + ORDERS + SINK.replace(";", "\n  WITH (WRITER ID = '../x');"),
        """\
error CALVE-102 (BadName): the sink 's': '../x' cannot be a sink's id (line 5, column 9)
        WITH (WRITER ID = '../x');
              ^
hint: Use 1 to 128 letters, digits, '_', '-' or '.', without '..', not beginning with '.' or '-'.
""",
        STATUS,
    ),
    # ---------------------------------------------------------------- secrets
    "a secret that is not set": Case(
        LOGIN + FAR + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': the secret 'login' is kept in the variable \
CALVE_NOT_SET, which is not set (line 2, column 44)
      CREATE CONNECTION lake TO ICEBERG CATALOG (TOKEN = SECRET login, URI = '
                                                 ^
hint: Set CALVE_NOT_SET, and export it, in the shell that starts calve.
""",
    ),
    "a secret that is empty": Case(
        LOGIN.replace("NOT_SET", "EMPTY") + FAR + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': the secret 'login' is kept in the variable \
CALVE_EMPTY, which is empty (line 2, column 44)
      CREATE CONNECTION lake TO ICEBERG CATALOG (TOKEN = SECRET login, URI = '
                                                 ^
hint: Set CALVE_EMPTY, and export it, in the shell that starts calve.
""",
    ),
    "a secret in a file that is not there": Case(
        LOGIN.replace("ENV 'CALVE_NOT_SET'", "FILE '/nowhere/login'") + FAR + ORDERS + SINK,
        """\
error CALVE-100 (ConfigError): the connection 'lake': the secret 'login' is kept in the file \
/nowhere/login, which cannot be read: No such file or directory (line 2, column 44)
      CREATE CONNECTION lake TO ICEBERG CATALOG (TOKEN = SECRET login, URI = '
                                                 ^
hint: Write it there, readable for whoever runs calve and for nobody else.
""",
    ),
    "a secret beside a typo": Case(
        f"CREATE CONNECTION c TO AWS (SECRET ACCESS KEY = '{CANARY}' REGION = 'x');",
        """\
error CALVE-200 (BadStatement): this was not expected (line 1, column 63)
      E CONNECTION c TO AWS (SECRET ACCESS KEY = '***********' ****** * '*');
                                                               ^
hint: Expected: ')' or ','.
""",
    ),
    "a secret in a quote that is not closed": Case(
        f"CREATE CONNECTION c TO AWS (SECRET ACCESS KEY = '{CANARY}, REGION = 'x');",
        """\
error CALVE-200 (BadStatement): this quote is never closed (line 1, column 74)
      N c TO AWS (SECRET ACCESS KEY = '**********************'*'**
                                                               ^
hint: Close it with another '.
""",
    ),
    # ---------------------------------------------------------------- servers and files
    "a catalog that is down": Case(
        FAR.replace("TOKEN = SECRET login, ", "") + ORDERS + SINK,
        """\
error CALVE-500 (CatalogError): no server listens at 127.0.0.1:{port}, or it hung up
hint: Is the server up? Look at the port in the catalog's URI, and whether it is http or https.
""",
        STATUS,
    ),
    "a database that is down": Case(
        LAKE.replace(
            HERE, f"TYPE = 'sql', URI = 'postgresql://u:{CANARY}@127.0.0.1:{{port}}/d', WAREHOUSE = 'w'"
        )
        + ORDERS
        + SINK,
        """\
error CALVE-500 (CatalogError): the catalog at postgresql://***@127.0.0.1:{port}/d cannot be opened: \
(psycopg.OperationalError) connection failed: connection to server at "127.0.0.1", port {port} failed: \
Connection refused Is the server running on that host and accepting TCP/IP connections?
hint: Is the database up, and does the login have the right to create tables in it?
""",
        STATUS,
    ),
    "a file that is not there": Case(
        WHOLE,
        """\
error CALVE-100 (ConfigError): the pipeline pipelien.sql cannot be read: No such file or directory
hint: Here is pipeline.sql.
""",
        ("run", "pipelien.sql"),
    ),
    "a folder instead of a file": Case(
        WHOLE,
        """\
error CALVE-100 (ConfigError): the pipeline orders cannot be read: Is a directory
hint: Here is pipeline.sql.
""",
        ("run", "orders"),
    ),
    # ---------------------------------------------------------------- the command line
    "a pipeline without a sink": Case(
        LAKE + ORDERS,
        """\
error CALVE-100 (ConfigError): pipeline.sql defines no sink
hint: Write CREATE SINK … FROM … INTO ….
""",
    ),
    "a pipeline that is empty": Case(
        "-- nothing yet\n",
        """\
error CALVE-100 (ConfigError): pipeline.sql defines no sink
hint: Write CREATE SINK … FROM … INTO ….
""",
    ),
    "an unknown sink": Case(
        WHOLE,
        """\
error CALVE-200 (BadStatement): there is no sink 't'
hint: There is: s.
""",
        ("run", "--sink", "t"),
    ),
    "an unknown sink of a table": Case(
        WHOLE,
        """\
error CALVE-200 (BadStatement): there is no sink 't'
hint: There is: s.
""",
        (*STATUS, "--sink", "t"),
    ),
    "a time that is none": Case(
        WHOLE,
        """\
error CALVE-320 (BadTime): 'tomorrow' is no time of any source
hint: Give it as the source prints it: a number, 1698775840453391000.0000000001 (CockroachDB), 16/B374D848 \
(an LSN), or a wall time such as 2026-11-17T12:00:00Z.
""",
        ("run", "--until", "tomorrow"),
    ),
    "a setting of Spark's that is none": Case(
        WHOLE,
        """\
error CALVE-100 (ConfigError): --conf 'executor.memory' is no setting of Spark's
hint: Write --conf spark.executor.memory=4g.
""",
        ("run", "--conf", "executor.memory=1g"),
    ),
    "a flag that is none": Case(
        WHOLE,
        """\
error CALVE-900 (BadUsage): no such option: --onec (Possible options: --conf, --json, --once)
hint: `calve run --help` shows what it takes.
""",
        ("run", "--onec"),
        64,
    ),
    "a command that is none": Case(
        WHOLE,
        """\
error CALVE-900 (BadUsage): no such command 'rnu'. Did you mean 'run'?
hint: `calve --help` shows what it takes.
""",
        ("rnu",),
        64,
    ),
    "a table of no catalog": Case(
        WHOLE,
        """\
error CALVE-102 (BadName): the table 'orders' has no namespace
hint: Write catalog.namespace.table, such as 'lake.sales.orders'.
""",
        ("status", "orders"),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def said(case: Case, here: Path, port: int, **env: str) -> tuple[str, int]:
    (here / "pipeline.sql").write_text(case.pipeline.replace("{port}", str(port)), "utf-8")
    done = CliRunner().invoke(app, list(case.words), env={**ENV, **env})
    text = re.sub(rf"{re.escape(str(here))}\b", "HERE", done.output).replace(str(port), "{port}")
    return text, done.exit_code


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_a_pipeline_is_told_in_full(here: Path, port: int, name: str) -> None:
    case = CASES[name]
    text, code = said(case, here, port)
    assert text == case.error
    assert code == case.code
    assert CANARY not in text
    assert sorted(path.name for path in here.rglob("*")) == ["orders", "pipeline.sql"], "nothing was made"


@pytest.mark.parametrize("name", CASES)
def test_no_word_of_it_is_cut_at_80_columns(here: Path, port: int, name: str) -> None:
    case = CASES[name]
    whole, _ = said(case, here, port)
    narrow, _ = said(case, here, port, FORCE_COLOR="1", TERM="xterm", COLUMNS="80")
    assert narrow.split() == whole.split()
    for line in narrow.replace("HERE", str(here)).replace("{port}", str(port)).splitlines():
        assert len(line) <= 80 or len(line.split()) == 1, line
