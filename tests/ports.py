"""Ports for the servers and the groups of processes that tests start."""

import contextlib
import secrets
import socket


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given meanwhile: those begin at 32,768."""
    while True:
        port = secrets.choice(range(20_000, 32_768))
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("", port))
            return port
