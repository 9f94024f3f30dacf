"""Small files below a checkpoint, on whatever file system Spark has it.

    write_new ──▶ .<name>.<uuid>.tmp ──closed──▶ <name>        read ──▶ the whole text, or None
                                     └─ one act: rename, or a link on local disk

Guarantee: a name is written once, by one writer, and a reader sees all of a file or nothing of it. Why that
holds: the text is complete and closed under a name of its own before it gets its real one, and the act that
gives the name fails where the name is taken. HDFS and Azure refuse such a rename; a local disk replaces the
file in silence, so there the name is a second link, which the kernel gives only once. On S3 a rename is a
look and then a copy: two writers of one name in the same instant may both go on. That is why names carry the
generation of their run, and no two runs write the same.

"Not there" is an answer that a sink builds on: without its files it would begin anew. So it is given only
where the file system says so for certain; a folder that cannot be searched is an error.

Everything goes through the Hadoop FileSystem in Spark's own JVM, so that the logins, settings and jars that
serve Spark's checkpoint serve these files too. A file crosses between the JVM and Python as one value, never
in pieces: 20 MB take about a second.

Not here: what the files say, and rows, which Spark itself reads and writes below `uri`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from calve.config.secret import redact
from calve.model.errors import ConfigError, StoreError

T = TypeVar("T")

_PATTERN = re.compile(r"[{}\[\]*?\\]")  # what makes a path a pattern to Spark's readers
# A leading dot is for halves: ours, and what others (checksums) put beside a file.
_NAME = re.compile(r"[^./:{}\[\]*?\\\x00-\x1f][^/:{}\[\]*?\\\x00-\x1f]*")

_NOT_FOUND = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_TAKEN = ("org.apache.hadoop.fs.FileAlreadyExistsException", "java.nio.file.FileAlreadyExistsException")
_MALFORMED = ("java.nio.charset.CharacterCodingException",)
_RIGHTS = "Give Spark's user the right to read and write there, then start the query again."
_HINTS = {
    "org.apache.hadoop.security.AccessControlException": _RIGHTS,
    "java.nio.file.AccessDeniedException": _RIGHTS,
    "org.apache.hadoop.fs.UnsupportedFileSystemException": (
        "Spark has no file system of that kind: add its jar to the session (spark.jars), or use another."
    ),
    "java.lang.ClassNotFoundException": "Add the jar of that file system to the session (spark.jars).",
    # After the more exact ones: of java.nio's calls only links are refused in other ways.
    "java.nio.file.FileSystemException": (
        "A local checkpoint needs a disk that makes hard links, and no file where a folder should be."
    ),
}
_HINT = "Nothing was committed by this. Mend the checkpoint's file system, then start the query again."


class _Java:
    """The classes that are called. Each is looked up once: Py4J asks the JVM for every part of its name."""

    def __init__(self, jvm: Any, gateway: Any) -> None:
        self.path = jvm.org.apache.hadoop.fs.Path
        self.file_util = jvm.org.apache.hadoop.fs.FileUtil
        self.array_seq = jvm.scala.collection.immutable.ArraySeq
        self.reader = jvm.java.io.InputStreamReader
        self.string_writer = jvm.java.io.StringWriter
        self.utf_8 = jvm.java.nio.charset.StandardCharsets.UTF_8
        self.file = jvm.java.io.File
        self.files = jvm.java.nio.file.Files
        self.channel = jvm.java.nio.channels.FileChannel
        self.no_links = gateway.new_array(jvm.java.nio.file.LinkOption, 0)
        self.to_read = gateway.new_array(jvm.java.nio.file.OpenOption, 1)
        self.to_read[0] = jvm.java.nio.file.StandardOpenOption.READ


class CheckpointFiles:
    """Text files by relative name below one folder. May be used by several threads."""

    def __init__(self, spark: Any, root: str, table: str | None = None) -> None:
        """`table`: what is ours lies in a folder of this name, beside those of other tables."""
        if _PATTERN.search(root):
            raise ConfigError(
                f"the checkpoint {redact(root)!r} has one of the characters {{}}[]*?\\ in it, which Spark's "
                "readers take for a pattern",
                hint="Use a checkpointLocation without them.",
            )
        self._gateway = spark.sparkContext._gateway
        self._root = root
        self._ours = "calve/" if table is None else f"calve/tables/{table}/"
        with self._failures("open", ""):
            self._java = _Java(spark._jvm, self._gateway)
            path = self._java.path(root)
            fs = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
            if is_instance_of(self._gateway, fs, "org.apache.hadoop.fs.ChecksumFileSystem"):
                # Checksums of local files lie beside them and would be left behind by a link; and only the
                # file system below can bring a file to the disk (hsync).
                fs = fs.getRawFileSystem()
            self._fs = fs
            self._local = fs.getUri().getScheme() == "file"
            self._folder = fs.makeQualified(path)

    def uri(self, name: str) -> str:
        """The full path of a file or folder, as Spark's readers and writers take it."""
        return str(self._path(name).toString())

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is certainly no such file."""
        path = self._path(name)
        with self._failures("read", name):
            return self._if_there(path, self._text)

    def write_new(self, name: str, text: str) -> None:
        """Create a file with this text. A name that exists is refused, and its file stays as it is."""
        path = self._path(name)
        temporary = self._java.path(path.getParent(), f".{path.getName()}.{uuid.uuid4().hex}.tmp")
        with self._failures("write", name):
            if self._fs.exists(path):
                raise self._taken(name)
            try:
                self._fill(temporary, text)
                self._give_name(temporary, path, name)
            finally:
                self._fs.delete(temporary, False)

    def names(self, folder: str = "") -> list[str]:
        """What a folder holds, sorted; [] if there is certainly no such folder. Hidden files are left out:
        they are what others have not finished."""
        path = self._path(folder) if folder else self._folder
        with self._failures("list", folder):
            found = self._if_there(path, self._fs.listStatus)
            if found is None:
                return []
            # One text for all: each look into a Java array is a call of its own.
            paths = self._java.file_util.stat2Paths(found)
            joined = self._java.array_seq.unsafeWrapArray(paths).mkString("\0")
            whole = joined.split("\0") if joined else []
            if whole == [path.toString()]:  # what Hadoop answers for a file
                raise StoreError(f"{whole[0]} is a file, not a folder", hint="Use a checkpoint of its own.")
        names = (entry.rpartition("/")[2] for entry in whole)
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with all that it holds. One that is not there is fine."""
        path = self._path(name)
        with self._failures("delete", name):
            if not self._fs.delete(path, True) and self._fs.exists(path):
                raise StoreError(f"{path.toString()} could not be deleted", hint=_HINT)

    # ---------------------------------------------------------------- one file

    def _text(self, path: Any) -> str:
        stream = self._fs.open(path)
        try:
            # As text and not as bytes: bytes cross in base64, three times as slow. The decoder refuses what
            # is not UTF-8, where Java by itself would put a question mark.
            whole = self._java.string_writer()
            self._java.reader(stream, self._java.utf_8.newDecoder()).transferTo(whole)
            return str(whole.toString())
        finally:
            stream.close()

    def _fill(self, path: Any, text: str) -> None:
        stream = self._fs.create(path, False)
        try:
            stream.write(bytearray(text, "utf-8"))
            if stream.hasCapability("hsync"):
                stream.hsync()
        finally:
            stream.close()

    def _give_name(self, temporary: Any, path: Any, name: str) -> None:
        try:
            if self._local:
                self._java.files.createLink(self._on_disk(path), self._on_disk(temporary))
                self._sync(path.getParent())
                return
            renamed = self._fs.rename(temporary, path)
        except Py4JJavaError as error:
            if self._is_a(error, _TAKEN):
                raise self._taken(name) from error
            raise
        if not renamed:
            if self._fs.exists(path):
                raise self._taken(name)
            raise StoreError(f"{path.toString()} could not be given its name", hint=_HINT)

    # ---------------------------------------------------------------- what the file system says

    def _if_there(self, path: Any, act: Callable[[Any], T]) -> T | None:
        """What an act on a path answers; None if there is certainly nothing."""
        for last_look in (False, True):
            try:
                return act(path)
            except Py4JJavaError as error:
                if not self._is_a(error, _NOT_FOUND):
                    raise
                if self._surely_absent(path):
                    return None
                if last_look:  # the first time it may have come between the act and the question
                    raise
        raise AssertionError("unreachable")

    def _surely_absent(self, path: Any) -> bool:
        if not self._local:
            return not self._fs.exists(path)
        # Java's older calls say "not there" also of a file in a folder that may not be searched.
        return bool(self._java.files.notExists(self._on_disk(path), self._java.no_links))

    def _sync(self, folder: Any) -> None:
        """Bring a local folder's entries to the disk."""
        channel = self._java.channel.open(self._on_disk(folder), self._java.to_read)
        try:
            channel.force(True)
        finally:
            channel.close()

    def _on_disk(self, path: Any) -> Any:
        return self._java.file(path.toUri().getPath()).toPath()

    def _path(self, name: str) -> Any:
        if not all(map(_NAME.fullmatch, name.split("/"))):
            raise StoreError(
                f"{name!r} is not the name of a file below {redact(self._root)}",
                hint="Names are relative, without '..', without a leading dot and without any of :{}[]*?\\.",
            )
        inside = name.removeprefix("calve/")
        return self._java.path(self._folder, name if inside == name else self._ours + inside)

    # ---------------------------------------------------------------- errors

    def _taken(self, name: str) -> StoreError:
        return StoreError(
            f"{redact(self.uri(name))} is already there; it was left as it is",
            hint="Another run writes into this checkpoint: let one query have it, and start it again.",
        )

    def _is_a(self, error: Py4JJavaError, classes: tuple[str, ...]) -> bool:
        return any(is_instance_of(self._gateway, error.java_exception, each) for each in classes)

    @contextmanager
    def _failures(self, act: str, name: str) -> Iterator[None]:
        """Whatever the JVM throws becomes a StoreError."""
        try:
            yield
        except Py4JJavaError as error:
            reason = f"{error.java_exception.getClass().getSimpleName()}: {error.java_exception.getMessage()}"
            if self._is_a(error, _MALFORMED):
                reason = "it is not UTF-8 text"
            hint = next((hint for each, hint in _HINTS.items() if self._is_a(error, (each,))), _HINT)
            raise self._failed(act, name, reason, hint) from error
        except (Py4JError, PySparkException) as error:
            # PySpark has errors of its own for some of Java's, and Py4J for a JVM that went away.
            raise self._failed(act, name, f"{type(error).__name__}: {error}", _HINT) from error

    def _failed(self, act: str, name: str, reason: str, hint: str) -> StoreError:
        place = f"{self._root.rstrip('/')}/{name}" if name else self._root
        return StoreError(redact(f"cannot {act} {place}: {reason.partition(chr(10))[0]}"), hint=hint)
