"""Types of columns at a source: texts in Iceberg's notation, as values, and as Arrow's.

tree.py      the values and their canonical text
notation.py  text ─▶ value
arrow.py     value ─▶ Arrow

Plain Python and pyarrow: executors read these, too.
"""

from calve.config.types.arrow import arrow_type
from calve.config.types.notation import canonical, parse_type
from calve.config.types.tree import Decimal, List, Map, Plain, Struct, Type

__all__ = ["Decimal", "List", "Map", "Plain", "Struct", "Type", "arrow_type", "canonical", "parse_type"]
