"""What Spark's offset log says of a micro-batch: the same rows have the same digest, other rows another."""

from __future__ import annotations

import json

from calve.runtime.spark.run import offset_log
from tests.support.checkpoints import MemoryFiles


def log_of(*sources: str, watermark_ms: int = 0, settings: str = "a") -> str:
    head = json.dumps({"batchWatermarkMs": watermark_ms, "batchTimestampMs": 7, "conf": {"x": settings}})
    return "\n".join(["v1", head, *sources])


def entries(*names: str, number: int) -> list[str]:
    return [f'{{"path":"file:///{name}","timestamp":1,"batchId":{number}}}' for name in names]


def source_log(**logs: list[str]) -> MemoryFiles:
    texts = {
        f"sources/0/{name.lstrip('n').replace('_', '.')}": "\n".join(["v1", *log])
        for name, log in logs.items()
    }
    return MemoryFiles(texts)


NONE = MemoryFiles()
KAFKA = '{"orders":{"0":120,"1":77}}'


def test_the_same_offsets_have_the_same_digest_whatever_the_run_s_settings_are() -> None:
    assert offset_log(log_of(KAFKA), NONE).digest == offset_log(log_of(KAFKA, settings="b"), NONE).digest


def test_other_offsets_or_another_order_of_sources_have_another_digest() -> None:
    other = '{"orders":{"0":121,"1":77}}'
    digests = {
        offset_log(log_of(*sources), NONE).digest
        for sources in ([KAFKA], [other], [KAFKA, other], [other, KAFKA], ["-", KAFKA], [KAFKA, "-"])
    }
    assert len(digests) == 6


def test_the_watermark_is_that_of_the_micro_batch_and_no_part_of_the_digest() -> None:
    log = offset_log(log_of(KAFKA, watermark_ms=1_700_000_000_123), NONE)
    assert log.watermark_ms == 1_700_000_000_123
    assert log.digest == offset_log(log_of(KAFKA), NONE).digest


def test_case_69_a_number_in_the_file_source_s_log_stands_for_the_files_of_that_entry() -> None:
    text = log_of('{"logOffset":4}')
    one = offset_log(text, source_log(n4=entries("a", "b", number=4))).digest
    assert one == offset_log(text, source_log(n4=entries("b", "a", number=4))).digest
    assert one != offset_log(text, source_log(n4=entries("a", "b", "c", number=4))).digest


def test_case_69_a_log_that_spark_compacted_meanwhile_says_the_same() -> None:
    """Every tenth entry repeats all files so far."""
    text = log_of('{"logOffset":9}')
    plain = source_log(n9=entries("y", "z", number=9))
    compacted = source_log(n9_compact=[*entries("a", "b", number=8), *entries("y", "z", number=9)])
    assert offset_log(text, plain).digest == offset_log(text, compacted).digest


def test_an_entry_that_is_gone_is_not_the_same_as_one_that_is_there() -> None:
    text = log_of('{"logOffset":4}')
    assert offset_log(text, NONE).digest != offset_log(text, source_log(n4=entries("a", number=4))).digest
