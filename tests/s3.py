"""A real S3 server on this machine, in a process of its own that is always stopped."""

import contextlib
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from unittest import mock

from tests.ports import free_port

BUCKET = "bucket"
START_S = 60
KEYS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "knows", "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def s3_server(
    program: Sequence[str] = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p"), *more: str
) -> Iterator[str]:
    """Start the server, with one bucket; its address. The variables that clients read are set meanwhile."""
    port = free_port()
    server = subprocess.Popen(
        [*program, str(port), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, port)
        with mock.patch.dict(os.environ, AWS_ENDPOINT_URL=address, **KEYS):
            yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while True:
        assert server.poll() is None, "the S3 server has ended"
        assert time.monotonic() < until, "the S3 server does not answer"
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("PUT", f"/{BUCKET}")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
