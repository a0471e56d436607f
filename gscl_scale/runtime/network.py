"""The network of the processes of a training: errors about its interface, and how NCCL reports a failure."""

import os
import re
import socket

# NCCL's own thread ends a process that waits for a lost one, without a word. With 2 it only gives up the sum, which
# then raises an error where it is waited for. torch reads this from the environment alone.
NCCL_VARIABLES = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "2"}

_GLOO = re.compile(r"Unable to find (?:address|interface) for: *(\S+)")
_NCCL = "no socket interface found"


def wrong_interface(error: str) -> str:
    """The variable and the name in it where an error says that no network interface has that name; "" otherwise."""
    if found := _GLOO.search(error):
        return f"GLOO_SOCKET_IFNAME={found[1]}"
    return f"NCCL_SOCKET_IFNAME={os.environ.get('NCCL_SOCKET_IFNAME', '')}" if _NCCL in error else ""


def interface_names() -> list[str]:
    """The network interfaces of this machine."""
    return [name for _, name in socket.if_nameindex()]
