"""What a back end gets wrong, or cannot do, as the conformance suite meets it.

Each line stands in README.md too, under the same words. What is named here must go wrong, or be refused: when
a server is put right, its line goes.
"""

from __future__ import annotations

_ANY_SECRET = "takes any secret"
_NO_LIST = "lists nothing by the XML door"
_OWN_ORDER = "sorts folders by their names without the slash"
_S3TABLES = "s3tables, fence on main"
_NO_LOG = "keeps no log of metadata files"

# (back end, how a test's name begins) -> why it fails there
KNOWN: dict[tuple[str, str], str] = {
    ("moto", "test_a_wrong_secret"): _ANY_SECRET,
    ("gcs", "test_a_wrong_secret"): _ANY_SECRET,
    ("gcs", "test_names_come_in_lexical_order"): _NO_LIST,
    ("gcs", "test_a_folder_with_nothing_in_it"): _NO_LIST,
    ("seaweedfs", "test_a_folder_is_sorted_with_its_slash"): _OWN_ORDER,
    ("gcs", "test_a_folder_is_sorted_with_its_slash"): _NO_LIST,
    (_S3TABLES, "test_a_group_of_batches"): _NO_LOG,
    (_S3TABLES, "test_new_columns"): _NO_LOG,
    (_S3TABLES, "test_layout_and_properties"): "forgets the sort order that a table is made with",
    (_S3TABLES, "test_case_28"): "drops no table by REST",
    (_S3TABLES, "test_a_nested_namespace"): "makes the first level alone of a namespace inside others",
}

_TABLE_BUCKET = "refuses names with other letters than a-z, 0-9, _ and -"
_ONE_LEVEL = "refuses namespaces inside others"

# (back end, kind of name) -> why it is refused there
NAMES_REFUSED: dict[tuple[str, str], str] = {
    ("seaweedfs-oauth2", "unicode"): _TABLE_BUCKET,
    ("seaweedfs-sigv4", "unicode"): _TABLE_BUCKET,
    ("glue", "nested"): _ONE_LEVEL,
    ("hive", "nested"): _ONE_LEVEL,
    ("hive", "unicode"): "refuses names with other letters than those of ASCII",
    ("hive", "255 bytes"): "refuses names with more than 128 characters",
}


def reason_for(backend: str, test: str) -> str | None:
    """Why a test fails on a back end; `None` where it must pass."""
    fits = (why for (name, begin), why in KNOWN.items() if name == backend and test.startswith(begin))
    return next(fits, None)
