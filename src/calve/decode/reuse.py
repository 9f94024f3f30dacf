"""Reuse: what a Spark worker need not do again before and after each task.

Spark's workers live on from task to task. Before each one they forget what they know of the import path, and
read the list of files of every archive on it again: PySpark's own has two thousand. After each one they look
at every object for garbage, modules too. Together that is 0.17 s of CPU, more than a small task takes. So
archives are forgotten here, until something is imported from one, and what is there after the first task is
left out of the search.
"""

from __future__ import annotations

import gc
import sys
import zipimport

_settled = False


def settle() -> None:
    """Leave the worker light for its next task."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[place]
