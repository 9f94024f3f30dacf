"""Scene: what pictures of the documentation show, made in this folder: a shop, its pipeline, its changes.

python scene.py               a feed of CockroachDB's, and a pipeline that keeps its paid orders
python scene.py --later       ten seconds later: one order is paid, one is given back
python scene.py --tampered    somebody else has written to the table
python scene.py --typo        the pipeline, with a mistake in it
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

PIPELINE = """\
CREATE CONNECTION lake TO ICEBERG CATALOG (WAREHOUSE = 'warehouse');

CREATE SOURCE orders (id INT8 PRIMARY KEY, status STRING, total DECIMAL(10,2))
  FROM COCKROACHDB CHANGEFEED (URL = 'feed', TOPIC = 'orders');

CREATE VIEW paid AS SELECT id, total FROM orders WHERE status = 'paid';

CREATE SINK paid_orders FROM paid
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'paid_orders')
  PARTITION BY (bucket(16, id));
"""
DAY = Path("feed/2026-11-16")
FIRST = 1_794_819_600  # 2026-11-16 09:00:00


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("--later", "--tampered", "--typo"):
        parser.add_argument(flag, action="store_true")
    asked = parser.parse_args()
    if asked.later:
        feed(10, [(1, "paid", "10.00"), (2, "returned", "25.50")])
    elif asked.tampered:
        tamper()
    else:
        typo = PIPELINE.replace("PARTITION BY", "PARTITON BY")
        Path("pipeline.sql").write_text(typo if asked.typo else PIPELINE, "utf-8")
        orders = ["new", "paid", "paid", "paid"]
        totals = ["10.00", "25.50", "7.20", "99.00"]
        feed(0, list(zip((1, 2, 3, 4), orders, totals, strict=True)))


def feed(second: int, orders: list[tuple[int, str, str]]) -> None:
    """Changes of ten seconds, and the mark that all of them are there."""
    DAY.mkdir(parents=True, exist_ok=True)
    lines = [
        f'{{"after": {{"id": {id_}, "status": {json.dumps(status)}, "total": {total}}}, "key": [{id_}], '
        f'"updated": "{FIRST + second + place + 1}000000000.0000000000"}}\n'
        for place, (id_, status, total) in enumerate(orders)
    ]
    at = f"202611160900{second:02d}0000000000000000000"
    data = DAY / f"{at}-b6199abe6ff49566-1-1-0000000{second:x}-orders-1.ndjson"
    data.write_text("".join(lines), "utf-8")
    resolved = DAY / f"202611160900{second + 10:02d}0000000000000000000.RESOLVED"
    resolved.write_text(f'{{"resolved": "{FIRST + second + 10}000000000.0000000000"}}\n', "utf-8")


def tamper() -> None:
    """A row too many, as an INSERT of somebody else leaves it."""
    from decimal import Decimal

    import pyarrow as pa
    from pyiceberg.catalog import load_catalog
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    lake = load_catalog("lake", uri="sqlite:///warehouse/catalog.db", warehouse="warehouse")
    table = lake.load_table("shop.paid_orders")
    rows = [{"id": 7, "total": Decimal("12.00")}, {"id": 3, "total": Decimal("7.20")}]
    table.append(pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema(), include_field_ids=False)))


if __name__ == "__main__":
    main()
