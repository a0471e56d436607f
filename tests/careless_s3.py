"""A small S3 server of our own that overwrites files although a request says `If-None-Match: *`, as some stores do."""

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit

from tests.s3 import BUCKET, KEYS

_LISTED = '<Contents><Key>{}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"1"</ETag>'


class S3Files(ThreadingHTTPServer):
    """The server: the files in it, and how often a condition was ignored."""

    def __init__(self, honest: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honest, self.files, self.ignored = honest, dict[str, bytes](), 0


class _Handler(BaseHTTPRequestHandler):
    server: S3Files

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        is_second = self.headers["If-None-Match"] == "*" and self._name() in self.server.files
        if is_second and self.server.honest:
            self._answer(412)
            return
        self.server.ignored += is_second
        self.server.files[self._name()] = content
        self._answer(200)

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            start = query.get("prefix", [""])[0]
            found = sorted((name, content) for name, content in self.server.files.items() if name.startswith(start))
            entries = "".join(f"{_LISTED.format(name, len(content))}</Contents>" for name, content in found)
            self._answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
        elif self._name() in self.server.files:
            self._answer(200, self.server.files[self._name()])
        else:
            self._answer(404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Remove several files."""
        names = re.findall("<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])).decode())
        for name in names:
            self.server.files.pop(name, None)
        removed = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{removed}</DeleteResult>".encode())

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def s3_files(honest: bool) -> Iterator[S3Files]:
    """Start the server on a free port, and stop it in the end; clients find it by their variables."""
    server = S3Files(honest)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    try:
        with mock.patch.dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.server_port}", **KEYS):
            yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
