"""Native: files of a table by Spark's own Parquet reader.

    files ─▶ paths as Hadoop knows them ─▶ spark.read.parquet in a session of its own ─▶ rows
                                                  └─ _metadata ─▶ tags of the file

Spark finds columns by their ids only in a session that is set so, and reads that setting when a query runs:
long after `calve.read` returned. So files are read in a session beside the user's, whose settings nobody else
sees; a relation keeps the session that it was made in, whatever frame it becomes part of. Of the user's
settings it has those of the moment.

Tags are what deletes must know of a row's file. Where all files have the same they are literals; else they
are told by the file's size, or, where that does not tell, joined by its path.

Guarantee: no row is lost in silence. A file that is missing or broken is an error whatever the session says
of such files, names that Spark passes over are not read here at all, and a row of a file that is not among
those that were asked for stops the query.

A filter reaches the files by the names of columns, not by their ids. Where a name may mean another column in
an older file, columns are read under names that no file has, and filters stay in Spark.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyiceberg.types import NestedField
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from calve.model.columns import RESERVED
from calve.model.errors import FileMissing, Unreadable
from calve.runtime.spark.frame import quoted
from calve.runtime.spark.shapes import Naming, stored_field
from calve.store import Access, check_location, local_path
from calve.table.live import LiveFile

PLACE = RESERVED + "place_in_file"
"""A tag: where in its file a row stands."""

_PATH, _KEY = RESERVED + "path", RESERVED + "key"
_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    # Files are named one by one: to look at each in a task of its own takes longer than the query.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
}
_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
    # Folders of partitions are no columns: these are in the files.
    "recursiveFileLookup": "true",
}
_PATTERN = re.compile(r"[{}\[\]*?\\:]")
"""What Hadoop takes for a pattern, or fails on, in a path."""
_beside: WeakKeyDictionary[SparkSession, tuple[Mapping[str, str], SparkSession]] = WeakKeyDictionary()
"""The last session beside each of the user's, and the settings that it was made with: as long as these are
the same, so is it."""
_BY_SIZE_MAX = 64
_SHOWN_MAX = 3
_lock = threading.Lock()
_LOCAL = re.compile("^file:///")
_URI_PLAIN = re.compile(r"[A-Za-z0-9_.!~'()*,;:$&+=@/-]")


@dataclass(frozen=True)
class Hadoop:
    """Which files the session's own file systems reach."""

    spark: SparkSession
    access: Access

    def path(self, location: str) -> str | None:
        """A file's location as Spark takes it; `None` if Spark cannot read it."""
        module = check_location(location)
        if module is None:
            path = "file://" + str(local_path(location).absolute())
        else:
            scheme, _, rest = location.partition("://")
            known = self._scheme(scheme, module)
            if known is None or self._is_told(location):
                return None
            path = f"{known}://{rest}"
        return path if _is_plain(path) else None

    def _is_told(self, location: str) -> bool:
        """Whether the catalog says how the store is reached: Spark's file system does not know that."""
        at = self.access.at(location)
        return bool(at.settings) or at.refresh is not None

    def _scheme(self, scheme: str, module: str) -> str | None:
        for name in dict.fromkeys((scheme, "s3a") if module == "s3" else (scheme,)):
            if name not in self._schemes:
                self._schemes[name] = self._has(name)
            if self._schemes[name]:
                return name
        return None

    @cached_property
    def _schemes(self) -> dict[str, bool]:
        return {}

    def _has(self, scheme: str) -> bool:
        context = self.spark.sparkContext
        conf = context._jsc.hadoopConfiguration()
        try:
            context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except Py4JError:  # the class is not on the class path, or none is set
            return False
        return True


def _is_plain(path: str) -> bool:
    """Whether Spark takes a path as it is, and does not pass over its file."""
    name = path.rpartition("/")[2]
    hidden = name.startswith(("_", ".")) or name.endswith("._COPYING_")
    return not hidden and _PATTERN.search(path.partition("://")[2]) is None


def as_spark_says(path: str) -> str:
    """A path as `_metadata.file_path` has it: as Java writes URIs."""
    scheme, _, rest = path.partition("://")
    said = "".join(one if _is_said(one) else _percent(one) for one in rest)
    return f"{scheme}:{said}" if scheme == "file" else f"{scheme}://{said}"


def _is_said(letter: str) -> bool:
    if letter.isascii():
        return _URI_PLAIN.fullmatch(letter) is not None
    return unicodedata.category(letter) not in ("Cc", "Zs", "Zl", "Zp")


def _percent(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode())


@dataclass(frozen=True)
class Native:
    """Reads files in a session of its own."""

    spark: SparkSession
    settings: Mapping[str, str]
    """Of the user's session."""
    hadoop: Hadoop
    naming: Naming

    @property
    def _session(self) -> SparkSession:
        with _lock:
            known = _beside.get(self.spark)
            if known is None or known[0] != self.settings:
                known = _beside[self.spark] = (self.settings, self._new_session())
            return known[1]

    def _new_session(self) -> SparkSession:
        session = self.spark.newSession()
        before = dict(session.conf.getAll)
        for name, value in {**self.settings, **_SETTINGS}.items():
            if before.get(name) != value and session.conf.isModifiable(name):
                session.conf.set(name, value)
        return session

    def rows(
        self,
        files: Sequence[tuple[LiveFile, tuple[int, ...]]],
        columns: Sequence[NestedField],
        tags: Sequence[str],
        *,
        places: bool = False,
    ) -> DataFrame:
        """The columns of files, under their names here; then the place of each row where that is asked for,
        and a column for each tag of its file."""
        paths = [_reached(self.hadoop, file) for file, _ in files]
        schema = T.StructType([stored_field(field, self.naming) for field in columns])
        try:
            frame = self._session.read.schema(schema).options(**_OPTIONS).parquet(*paths)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise FileMissing(
                f"a file of the table is not there: {str(error).splitlines()[0]}",
                hint="It was deleted or moved by somebody else. Restore it, or read a snapshot without it.",
            ) from error
        if not tags and not places:
            return frame
        where = [F.col("_metadata.row_index").alias(PLACE)] if places else []
        if (told := _without_paths(frame, paths, files, tags)) is not None:
            return frame.select("*", *where, *told)
        tagged = frame.select("*", F.col("_metadata.file_path").alias(_PATH), *where)
        known, key = self._known([as_spark_says(one) for one in paths], [tag for _, tag in files], tags)
        joined = tagged.join(F.broadcast(known), key(_PATH) == F.col(_KEY), "left")
        return joined.withColumns({tag: _told(F.col(tag), _PATH) for tag in tags}).drop(_PATH, _KEY)

    def column(self, field: NestedField) -> Column:
        """A column of the rows."""
        return F.col(quoted(self.naming(field)))

    def _known(
        self, paths: Sequence[str], values: Sequence[tuple[int, ...]], tags: Sequence[str]
    ) -> tuple[DataFrame, Callable[[str], Column]]:
        """The tags of files, and what of a path they are joined by: its hash, because a query whose join is
        by a long takes about a tenth less CPU than by a text; the path itself if two have the same hash."""
        columns = {_KEY: pa.array(paths, pa.string())}
        columns |= {
            tag: pa.array([one[place] for one in values], pa.int64()) for place, tag in enumerate(tags)
        }
        known = self.spark.createDataFrame(pa.table(columns))
        hashed = known.withColumn(_KEY, _hash(_KEY))
        # No job runs for this: Spark works out what is local to the driver while it plans.
        distinct = len(set(hashed.select(_KEY).collect()))
        return (hashed, _hash) if distinct == len(paths) else (known, F.col)


def _hash(path: str) -> Column:
    return F.xxhash64(F.col(path))


def _without_paths(
    frame: DataFrame,
    paths: Sequence[str],
    files: Sequence[tuple[LiveFile, tuple[int, ...]]],
    tags: Sequence[str],
) -> list[Column] | None:
    """The tags of rows that are told without a join: those that all files have, or by the files' sizes. To
    compare a number with a few others costs a row much less than to hash a path and join it. `None` where two
    files are of one size, very many are asked for, or sizes are not what manifests say."""
    same = len({values for _, values in files}) == 1
    known = {file.size: values for file, values in files}
    if not same and (len(known) < len(files) or len(files) > _BY_SIZE_MAX):
        return None
    location = frame._jdf.queryExecution().analyzed().relation().location()
    _check_asked(location.inputFiles(), paths)
    if same:
        return [F.lit(value).cast("long").alias(tag) for tag, value in zip(tags, files[0][1], strict=True)]
    if location.sizeInBytes() != sum(known):
        return None
    size, sizes = F.col("_metadata.file_size"), sorted(known)

    def found(sizes: Sequence[int], place: int) -> Column:
        if len(sizes) == 1:
            return F.when(size == sizes[0], F.lit(known[sizes[0]][place]).cast("long"))
        middle = len(sizes) // 2
        low, high = found(sizes[:middle], place), found(sizes[middle:], place)
        return F.when(size < sizes[middle], low).otherwise(high)

    return [_told(found(sizes, place), "_metadata.file_path").alias(tag) for place, tag in enumerate(tags)]


def _check_asked(found: Iterable[str], paths: Sequence[str]) -> None:
    """Rows that do not say what file they are of are those of the files that were asked for: Spark tells
    beforehand which it reads."""
    read = sorted(_LOCAL.sub("file:/", path) for path in found)
    if read != sorted(map(as_spark_says, paths)):
        raise Unreadable(
            f"Spark would read {read[:_SHOWN_MAX]} in place of {list(paths[:_SHOWN_MAX])}",
            hint="A folder stands where the table has a file: remove it, or restore the file.",
        )


def _told(tag: Column, path: str) -> Column:
    """A tag. Without it a delete would be missed, or a row be lost: there is none that may be missing."""
    unknown = F.raise_error(F.concat(F.lit("calve: rows of a file that was not asked for: "), F.col(path)))
    return F.coalesce(tag, unknown.cast("long"))


def _reached(hadoop: Hadoop, file: LiveFile) -> str:
    path = hadoop.path(file.path)
    assert path is not None, file.path
    return path
