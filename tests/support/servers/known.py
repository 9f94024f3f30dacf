"""What a back end gets wrong, or cannot do: the tests of the conformance suite that therefore fail on it.

Each line stands in README.md too, under the same words. A test that is named here must fail: when a server is
put right, its line goes.
"""

from __future__ import annotations

_ANY_SECRET = "takes any secret"
_TABLE_BUCKET = "names in a table bucket have a-z, 0-9, _ and - alone"

# (back end, how a test's name begins) -> why it fails there
KNOWN: dict[tuple[str, str], str] = {
    ("seaweedfs-oauth2", "test_a_unicode_namespace"): _TABLE_BUCKET,
    ("seaweedfs-sigv4", "test_a_unicode_namespace"): _TABLE_BUCKET,
    ("moto", "test_a_wrong_secret"): _ANY_SECRET,
    ("gcs", "test_a_wrong_secret"): _ANY_SECRET,
}


def reason_for(backend: str, test: str) -> str | None:
    """Why a test fails on a back end; `None` where it must pass."""
    fits = (why for (name, begin), why in KNOWN.items() if name == backend and test.startswith(begin))
    return next(fits, None)
