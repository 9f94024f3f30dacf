"""P10, case 58: a canary in every option that can carry a secret, looked for in every output."""

import logging
import pickle
import pprint
import traceback

import pytest

from calve.config.sink import SinkConfig
from calve.model.errors import CalveError

CANARY = "c4nary-s3cret"
TABLE = {"namespace": "n", "table.name": "t"}
CARRIERS = {
    "login": {"catalog.uri": f"postgresql://me:{CANARY}@host/db", "warehouse": "w"},
    "token as login": {"catalog.uri": f"https://{CANARY}@host"},
    "query": {"catalog.uri": f"https://host/x?token={CANARY}&ref=main"},
    "bare query": {"catalog.uri": f"https://host/x?{CANARY}"},
    "fragment": {"catalog.uri": f"https://host/x#{CANARY}"},
    **{
        name: {f"{prefix}.{name}": value}
        for prefix in ("catalog.prop", "storage")
        for name, value in {
            "token": CANARY,
            "credential": f"client:{CANARY}",
            "password": CANARY,
            "aws_access_key_id": CANARY,
            "aws_secret_access_key": CANARY,
            "s3.session-token": CANARY,
            "adls.connection-string": f"AccountKey={CANARY}",
            "header.Authorization": f"Bearer {CANARY}",
            "something-new": CANARY,
            "endpoint": f"https://me:{CANARY}@host",
        }.items()
    },
}
BREAKERS = [
    {},
    {"write.mode": "upsert"},
    {"write.mode": "x"},
    {"target.file.size": "1"},
    {"target.file.size": "x"},
    {"partition.spec": "dayz(ts)"},
    {"no.such.option": CANARY},
    {"catalog.type": "memory"},
    {"catalog.type": "hive"},
    {"catalog.type": "rest"},
    {"catalog.name": "../x"},
    {"table.prop.password": CANARY},
    {"table.prop.owner": f"https://me:{CANARY}@host"},
    {"location": f"s3://key:{CANARY}@bucket"},
    {"warehouse": f"s3://key:{CANARY}@bucket"},
    {"warehouse": f"s3://bucket/w?sv=x&secret={CANARY}"},
    {"warehouse": f"abfss://c@account/w?sv=1&sig={CANARY}"},
    {"warehouse": f"abfss://c@account/w?sv=1&sig={CANARY}", "catalog.uri": "sqlite:///c.db"},
    {"location": f"https://account/x?sv=1&sig={CANARY}"},
    {"table.prop.note": f"https://account/x?sv=1&sig={CANARY}"},
    {"catalog.prop.token": [CANARY]},
    {"storage.key": {CANARY: 1}},
    {"catalog.uri": [CANARY]},
    {"catalog.uri": f"https://host/{'a'}\n?token={CANARY}"},
    {"catalog.uri": f"https://me:{CANARY}@nessie/api/v1"},
    {"catalog.uri": f"ftp://me:{CANARY}@host", "catalog.type": "sql"},
]


def outputs_of(config, caplog):
    logging.getLogger("calve").warning("config %s %r", config, config)
    return [
        repr(config),
        str(config),
        f"{config} {config.catalog!r} {config.catalog.properties!r} {config.catalog.uri!s}",
        pprint.pformat(dict(config)),
        repr(config.model_dump()),
        config.model_dump_json(),
        repr(config.describe()),
        repr(vars(config)),
        repr(list(config.catalog)),
        repr(config.secrets),
        caplog.text,
    ]


@pytest.mark.parametrize("breaker", BREAKERS, ids=str)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_case_58_a_secret_shows_in_no_output_and_no_error(carrier, breaker, caplog):
    try:
        config = SinkConfig.from_options(TABLE | CARRIERS[carrier] | breaker)
    except CalveError as error:
        shown = [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception_only(error))]
        shown.append(repr((error.__cause__, error.__context__)))
    else:
        shown = outputs_of(config, caplog)
    for text in shown:
        assert CANARY not in text


@pytest.mark.parametrize("carrier", CARRIERS)
def test_case_58_what_libraries_say_is_redacted_by_what_the_configuration_knows(carrier):
    config = SinkConfig.from_options(TABLE | CARRIERS[carrier])
    assert CANARY not in config.redact(f"401: login {CANARY!r} refused, {CANARY}")
    with pytest.raises(CalveError):
        pickle.dumps(config)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_case_58_the_door_gets_the_secret_that_nobody_sees(carrier):
    config = SinkConfig.from_options(TABLE | CARRIERS[carrier])
    assert CANARY in repr(config.catalog.reveal())


@pytest.mark.parametrize("place", ["uri", "properties", "storage", "name", "type", "nothing"])
def test_case_58_python_faults_show_no_input_either(place):
    for value in (CANARY.encode(), [CANARY], {"token": [CANARY]}, {"x": {CANARY: 1}}):
        with pytest.raises(CalveError) as refused:
            SinkConfig(namespace="n", table="t", catalog={place: value})
        assert (
            CANARY
            not in "".join(traceback.format_exception(refused.value, chain=True)).partition("Error: ")[2]
        )
        assert refused.value.__context__ is None


def test_case_58_a_dump_does_not_pass_for_the_configuration():
    config = SinkConfig.from_options(TABLE | CARRIERS["token"])
    with pytest.raises(CalveError, match="masked"):
        SinkConfig(**config.model_dump())
