"""Spark Connect: refused with the reason, because a query would run where its driver's state is not."""

import pytest

import calve
from calve.model.errors import ConfigError


@pytest.mark.engines
def test_a_frame_of_spark_connect_is_refused_with_the_reason_and_a_way_out(sail):
    for door in (calve.write, calve.write_stream):
        with pytest.raises(ConfigError, match="Spark Connect") as refused:
            door(sail.session.range(3))
        assert "foreachBatch would run on the server" in refused.value.message
        assert "spark-submit" in refused.value.hint
