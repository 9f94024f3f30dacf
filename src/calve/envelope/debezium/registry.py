"""A schema registry, asked in Confluent's way: GET /schemas/ids/{id}. On the driver alone.

An id stands for one schema for ever: what was fetched is not asked for again. A registry that is down, or
says no, stops the micro-batch with its reason before anything is written; Spark begins it again.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from calve.model.errors import RegistryError

_ATTEMPTS = 3
_PAUSE_S = 1.0


@dataclass(frozen=True)
class Registry:
    """Where schemas are."""

    url: str
    """Such as http://127.0.0.1:8081; a user and a password may stand before the host."""
    timeout_s: float = 10.0
    """Of one request."""
    _known: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise RegistryError(
                "the URL of a schema registry begins with http:// or https://",
                hint="Name it as its clients do, e.g. http://host:8081.",
            )

    def __repr__(self) -> str:
        return f"Registry({self._shown!r})"

    def schema(self, number: int, place: str) -> Any:
        """The Avro schema with an id, which the message at a place has."""
        if number not in self._known:
            self._known[number] = self._fetched(number, place)
        return self._known[number]

    def _fetched(self, number: int, place: str) -> Any:
        body = self._get(f"/schemas/ids/{number}", number, place)
        try:
            said = json.loads(body)
            kind = said.get("schemaType", "AVRO")
            if kind != "AVRO" or said.get("references"):
                what = "refers to others" if kind == "AVRO" else f"is {kind}"
                raise RegistryError(
                    f"{place}: schema {number} of {self._shown} {what}, which is not read",
                    hint="Let the connector write Avro with schemas that stand for themselves.",
                )
            return json.loads(said["schema"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegistryError(
                f"{place}: what {self._shown} answers for schema {number} is no schema",
                hint="Is it a registry in Confluent's way? Apicurio's is at /apis/ccompat/v7.",
            ) from error

    def _get(self, path: str, number: int, place: str) -> bytes:
        reason = ""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with urllib.request.urlopen(self._request(path), timeout=self.timeout_s) as answer:
                    content: bytes = answer.read()
                    return content
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500:
                    raise self._refused(number, place, error.code) from None
                reason = f"answers {error.code}"
            except (OSError, http.client.HTTPException) as error:
                reason = f"is out of reach ({type(error).__name__})"
            if attempt < _ATTEMPTS:
                time.sleep(_PAUSE_S * attempt)
        raise RegistryError(
            f"{place}: the schema registry {self._shown} {reason}, and schema {number} is needed",
            hint="Nothing was written. Start the query again when the registry is there.",
        )

    def _refused(self, number: int, place: str, status: int) -> RegistryError:
        if status == 404:
            return RegistryError(
                f"{place}: the schema registry {self._shown} has no schema {number}",
                hint="Is it the registry that the connector writes to? Apicurio's converter needs "
                "as-confluent=true and use-id=contentId.",
            )
        return RegistryError(
            f"{place}: the schema registry {self._shown} answers {status} for schema {number}",
            hint="Check the user and the password in its URL.",
        )

    def _request(self, path: str) -> urllib.request.Request:
        parts = urllib.parse.urlsplit(self.url)
        request = urllib.request.Request(self._shown.rstrip("/") + path)
        if parts.username is not None:
            login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        return request

    @property
    def _shown(self) -> str:
        """The URL without a login."""
        parts = urllib.parse.urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
