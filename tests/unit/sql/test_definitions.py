"""Definitions: names stand for one thing, and refer to what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.model.errors import BadStatement
from calve.sql.connect import aws_properties, catalog_options
from calve.sql.defined import Definitions
from calve.sql.mask import masked
from calve.sql.read import read
from calve.sql.tree import Create, Drop, Statement, Target

PIPELINE = """
CREATE SECRET login FROM ENV 'LAKE_LOGIN';
CREATE CONNECTION keys TO AWS (REGION = 'eu-west-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (TYPE = 'rest', URI = 'http://h', CREDENTIAL = SECRET login,
                                           AWS CONNECTION = keys);
CREATE SOURCE orders (id long) FROM FILES (PATH = 'orders') KEY (id);
CREATE VIEW paid AS SELECT id FROM orders;
CREATE SINK paid FROM paid INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
    USING AWS CONNECTION keys;
"""


def define(text: str) -> Definitions:
    return Definitions.of_text(text, Path())


def apply(found: Definitions, statement: Statement) -> None:
    if isinstance(statement, Create):
        found.add(statement)
    elif isinstance(statement, Drop):
        found.drop(statement)
    else:
        define(statement.text)


def test_what_a_pipeline_defines_is_found_by_its_name() -> None:
    found = define(PIPELINE)
    assert list(found.sources) == ["orders"]
    assert list(found.views) == ["paid"]
    assert list(found.sinks) == ["paid"]  # a sink may be called like its view
    assert list(found.connections) == ["keys", "lake"]


WRONG = {
    "CREATE VIEW orders AS SELECT 1": ("there is a source 'orders' already (line 1, column 13)", "IF NOT"),
    "CREATE SINK s FROM ordres INTO 'iceberg://h/n/t'": (
        "there is no source or view 'ordres' (line 1, column 20)",
        "Did you mean orders? There are: orders, paid.",
    ),
    "CREATE SINK s FROM orders INTO ICEBERG CATALOG lake2 (NAMESPACE = 'n', TABLE = 't')": (
        "there is no connection 'lake2' (line 1, column 48)",
        "Did you mean lake?",
    ),
    "CREATE SINK s FROM orders INTO ICEBERG CATALOG keys (NAMESPACE = 'n', TABLE = 't')": (
        "the connection 'keys' leads TO AWS, and this needs one TO ICEBERG CATALOG (line 1, column 48)",
        "There is: lake.",
    ),
    "CREATE CONNECTION c TO ICEBERG CATALOG (TOKEN = SECRET logni)": (
        "there is no secret 'logni' (line 1, column 41)",
        "Did you mean login?",
    ),
    "CREATE CONNECTION c TO ICEBERG CATALOG (PASSWORD SECRET = nobody)": (
        "there is no secret 'nobody'",
        "login",
    ),
    "CREATE SOURCE s FROM KAFKA TOPIC (CONNECTION = k)": ("there is no connection 'k'", "keys, lake"),
    "DROP SOURCE paid": ("there is no source 'paid'", ""),
    "DROP CONNECTION lake": (
        "the connection 'lake' is used by the sink 'paid' (line 1, column 17)",
        "Drop that",
    ),
    "DROP CONNECTION keys": ("the connection 'keys' is used by the connection 'lake'", "Drop that first."),
    "DROP SECRET login": ("the secret 'login' is used by the connection 'lake'", "Drop that first."),
    "DROP VIEW paid": ("the view 'paid' is used by the sink 'paid'", "Drop that first."),
    "SHOW SINKS": ("a pipeline defines what is to run, and this asks a question", "calve sql"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_name_that_is_taken_or_refers_to_nothing_is_shown_with_its_place(text: str) -> None:
    found = define(PIPELINE)
    message, hint = WRONG[text]
    (statement,) = read(text)
    with pytest.raises(BadStatement) as error:
        apply(found, statement)
    assert message in error.value.message
    assert hint in error.value.hint


def test_what_may_be_there_already_is_kept_and_what_may_be_gone_is_passed_over() -> None:
    found = define(PIPELINE + "CREATE SOURCE IF NOT EXISTS orders (x int) FROM FILES (PATH = 'y');")
    assert found.sources["orders"].columns == "id long"
    (drop,) = read("DROP SINK IF EXISTS nobody")
    assert isinstance(drop, Drop)
    assert found.drop(drop) is None


def test_what_was_dropped_can_be_defined_again() -> None:
    found = define(PIPELINE + "DROP SINK paid; CREATE SINK paid FROM orders INTO 'iceberg://h/n/t';")
    assert found.sinks["paid"].source == "orders"


SECRETS = [
    "CREATE CONNECTION c TO ICEBERG CATALOG (PASSWORD = 'hunter2', TIPE = 'x')",
    "CREATE CONNECTION c TO AWS (SECRET ACCESS KEY = \"hunter2\", REGON = 'x')",
    "CREATE CONNECTION c TO AWS (SECRET ACCESS KEY 'hunter2', REGON = 'x'",
    "CREATE CONNECTION c TO ICEBERG CATALOG (TOKEN = 'hunter2)",
    "CREATE CONNECTION c TO ICEBERG CATALOG (TOKEN = hunter2!)",
    "CREATE CONNECTION c TO ICEBERG CATALOG (URI = 'http://me:hunter2@host/x' WAREHOUSE)",
    "CREATE SINK TABLE t FROM s WITH ('catalog.prop.token' = 'hunter2' 'x')",
    "CREATE SINK s FROM t INTO 'iceberg://h/n/t?token=hunter2' MOED x",
    "CREATE CONNECTION c TO KAFKA (SASL PASSWORD = 'it''s hunter2', BROKERZ x)",
]


def opened(text: str) -> None:
    found = define(text)
    for one in found.connections.values():
        (aws_properties if one.target is Target.AWS else catalog_options)(one, found)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_on_the_line_of_an_error_is_not_shown_and_the_caret_stays_where_it_is(text: str) -> None:
    """P10, case 58."""
    assert len(masked(text)) == len(text)
    assert "hunter2" not in masked(text)
    with pytest.raises(BadStatement) as error:
        opened(text)
    assert "hunter2" not in str(error.value)


def test_names_of_secrets_are_shown() -> None:
    text = "CREATE SECRET a FROM ENV 'LAKE_SECRET'; (TOKEN = SECRET b, PASSWORD SECRET = c, KEY = 'id')"
    assert masked(text) == text
