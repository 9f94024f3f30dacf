"""Equality deletes as another engine would write them: by Iceberg's own writer, on any columns."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any


def delete_by(
    spark: Any,
    table: str,
    columns: Sequence[str],
    keys: Sequence[Sequence[Any]],
    partition: str | None = None,
) -> None:
    """Delete the rows that have one of the keys, in a partition (`region=eu`) where the table has some."""
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    iceberg = jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    schema = loaded.schema().select(list(columns))
    ids = gateway.new_array(jvm.int, len(columns))
    for number, column in enumerate(columns):
        ids[number] = schema.findField(column).fieldId()
    factory = iceberg.data.GenericAppenderFactory(
        loaded, loaded.schema(), loaded.spec(), jvm.java.util.HashMap(), ids, schema
    )
    place = None if partition is None else iceberg.DataFiles.data(loaded.spec(), partition)
    location = f"{loaded.location()}/data/keys-{uuid.uuid4()}.parquet"
    file = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(loaded.io().newOutputFile(location))
    writer = factory.newEqDeleteWriter(file, iceberg.FileFormat.PARQUET, place)
    for key in keys:
        record = iceberg.data.GenericRecord.create(schema)
        for column, value in zip(columns, key, strict=True):
            record.setField(column, value)
        writer.write(record)
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    spark.sql(f"REFRESH TABLE {table}")
