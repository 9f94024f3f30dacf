"""gcp-storage-emulator with the whole of Google's XML door, which clients other than Google's own use.

The emulator's own answers there have no ETag and no time, and it knows neither HEAD and DELETE nor uploads in
parts: obstore refuses its first answer. So the routes of objects are put in front of the emulator's own, over
the emulator's own storage. Run as a program with the emulator's own words.
"""

from __future__ import annotations

import http.server
import re
import sys
import threading
import uuid
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any

from gcp_storage_emulator import __main__ as emulator
from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import objects

_OBJECT = r"^/(?P<bucket_name>[^/]+)/(?P<object_id>.+)$"
_uploads: dict[str, dict[int, bytes]] = {}
_one_at_a_time = threading.Lock()


def put(request: Any, response: Any, storage: Any) -> None:
    if "uploadId" in request.query:
        number = int(request.query["partNumber"][0])
        part = request.data or b""
        _uploads[request.query["uploadId"][0]][number] = part
        response["ETag"] = f'"{number}-{len(part)}"'
        return
    _create(request, response, storage, request.data or b"")


def post(request: Any, response: Any, storage: Any) -> None:
    if "uploadId" not in request.query:
        upload = uuid.uuid4().hex
        _uploads[upload] = {}
        name, inner = "InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>"
    else:
        parts = _uploads.pop(request.query["uploadId"][0])
        told = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", request.data)]
        _create(request, response, storage, b"".join(parts[number] for number in told))
        name, inner = "CompleteMultipartUploadResult", "<ETag>whole</ETag>"
    response.write_file(f"<{name}>{inner}</{name}>".encode(), "application/xml")


def get(request: Any, response: Any, storage: Any) -> None:
    objects.download(request, response, storage)
    if response.status.value < 300:
        _tell(response, storage.get_file_obj(request.params["bucket_name"], request.params["object_id"]))


def delete(request: Any, response: Any, storage: Any) -> None:
    if "uploadId" in request.query:
        _uploads.pop(request.query["uploadId"][0], None)
    else:
        objects.delete(request, response, storage)
    if response.status == HTTPStatus.OK:
        response.status = HTTPStatus.NO_CONTENT


def _create(request: Any, response: Any, storage: Any, content: bytes) -> None:
    place = request.params["bucket_name"], request.params["object_id"]
    kind = "application/octet-stream"
    told = objects._make_object_resource(request.base_url, *place, kind, str(len(content)))
    storage.create_file(*place, content, objects._checksums(content, told))
    _tell(response, told)


def _tell(response: Any, told: dict[str, Any]) -> None:
    response["ETag"] = f'"{told["etag"]}"'
    response["x-goog-generation"] = told["generation"]
    updated = datetime.fromisoformat(told["updated"])
    response["Last-Modified"] = format_datetime(updated, usegmt=True)


def locked(handler: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """The emulator's storage is not made for threads; only bodies are sent at the same time."""

    def run(request: Any, response: Any, storage: Any) -> None:
        request.data  # noqa: B018 (it is read from the network here)
        with _one_at_a_time:
            if request.params["bucket_name"] in storage.buckets:
                handler(request, response, storage)
            else:
                response.status = HTTPStatus.NOT_FOUND

    return run


class _Handler(server.RequestHandler):
    wfile: Any

    def do_HEAD(self) -> None:
        """A GET whose body stays here."""
        body: Any = self.wfile
        self.wfile = _HeadersOnly(body)
        server.Router(self).handle("GET")
        self.wfile = body


class _HeadersOnly:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._over = False

    def write(self, data: bytes) -> int:
        if not self._over:
            self._stream.write(data)
            self._over = data.endswith(b"\r\n\r\n")
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


if __name__ == "__main__":
    ours = {"GET": locked(get), "PUT": locked(put), "POST": locked(post), "DELETE": locked(delete)}
    own = server.HANDLERS[:-1]  # the last of its routes is the XML door
    server.HANDLERS = (*own, (_OBJECT, ours))
    server.RequestHandler = _Handler
    # Its own answers one request after the other: a client that reads two at once would wait for ever.
    server.server.HTTPServer = http.server.ThreadingHTTPServer
    http.server.ThreadingHTTPServer.request_queue_size = 64
    sys.exit(emulator.main())
