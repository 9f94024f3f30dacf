"""JDBC URLs: the same database under Python's words, and no setting that is lost in silence."""

import pytest
from sqlalchemy.engine import make_url

from calve.model.errors import ConfigError
from calve.runtime.spark.jdbc import sqlalchemy_uri


@pytest.mark.parametrize(
    "url,uri",
    [
        ("jdbc:sqlite:/lake/catalog.db", "sqlite:////lake/catalog.db"),
        ("jdbc:sqlite:catalog.db", "sqlite:///catalog.db"),
        ("jdbc:sqlite:file:/lake/catalog.db", "sqlite:////lake/catalog.db"),
        ("jdbc:sqlite:file:///lake/catalog.db", "sqlite:////lake/catalog.db"),
        ("jdbc:sqlite:/c.db?busy_timeout=5000&journal_mode=WAL", "sqlite:////c.db?timeout=5"),
        ("jdbc:postgresql://host/db", "postgresql://host/db"),
        ("jdbc:postgresql://host:5433/db", "postgresql://host:5433/db"),
        ("jdbc:postgresql://[::1]:5433/db", "postgresql://[::1]:5433/db"),
        ("jdbc:postgresql:db", "postgresql://localhost/db"),
        ("jdbc:postgresql://host/db?user=me&password=p", "postgresql://me:p@host/db"),
        ("jdbc:postgresql://host/db?sslmode=require", "postgresql://host/db?sslmode=require"),
        ("jdbc:postgresql://host/db?ssl=true", "postgresql://host/db?sslmode=verify-full"),
        ("jdbc:postgresql://host/db?ssl=true&sslmode=require", "postgresql://host/db?sslmode=require"),
        ("jdbc:postgresql://host/db?sslmode=require&ssl=true", "postgresql://host/db?sslmode=require"),
        ("jdbc:postgresql://host/db?ssl=false", "postgresql://host/db"),
        ("jdbc:postgresql://h/db?currentSchema=ice", "postgresql://h/db?options=-csearch_path%3Dice"),
        ("jdbc:postgresql://h/db?ApplicationName=x&connectTimeout=5&tcpKeepAlive=true",
         "postgresql://h/db?application_name=x&connect_timeout=5"),
    ],
)  # fmt: skip
def test_a_jdbc_url_is_the_same_database_for_sqlalchemy(url, uri):
    assert sqlalchemy_uri(url, {}) == uri
    assert make_url(uri).get_backend_name() in ("sqlite", "postgresql")


def test_the_login_beside_the_url_goes_into_it_whatever_its_letters():
    uri = sqlalchemy_uri("jdbc:postgresql://host/db", {"user": "me@x", "password": "p@s/s:w?d"})
    assert (make_url(uri).username, make_url(uri).password) == ("me@x", "p@s/s:w?d")
    assert make_url(uri).host == "host"


def test_the_url_wins_over_what_stands_beside_it_as_in_the_driver():
    settings = {"user": "other", "password": "beside"}
    assert sqlalchemy_uri("jdbc:postgresql://h/db?user=me", settings) == "postgresql://me:beside@h/db"


def test_a_login_for_sqlite_means_nothing():
    assert sqlalchemy_uri("jdbc:sqlite:/c.db", {"user": "u", "password": "canary"}) == "sqlite:////c.db"


@pytest.mark.parametrize(
    "url,settings,told",
    [
        ("jdbc:mysql://host/db?password=canary", {}, "mysql"),
        ("jdbc:postgresql://host/db?sslcert=canary", {}, "sslcert"),
        ("jdbc:postgresql://host/db", {"sslfactory": "canary"}, "sslfactory"),
        ("jdbc:postgresql://a,b/db?password=canary", {}, "one host"),
        ("jdbc:postgresql://me:canary@host/db", {}, "jdbc.user"),
        ("jdbc:postgresql://host/db?canary", {}, "name=value"),
        ("jdbc:postgresql:/x/y/z", {}, "cannot be read"),
        ("jdbc:sqlite:/c.db?cipher=canary", {}, "cipher"),
        ("jdbc:sqlite:/c.db?canary", {}, "name=value"),
        ("jdbc:sqlite:/c.db", {"cipher": "canary"}, "cipher"),
    ],
)
def test_what_python_cannot_say_is_refused_by_name_and_shows_no_secret(url, settings, told):
    with pytest.raises(ConfigError) as refused:
        sqlalchemy_uri(url, settings)
    assert told in str(refused.value)
    assert refused.value.hint
    assert "canary" not in str(refused.value)
    assert refused.value.__context__ is None
