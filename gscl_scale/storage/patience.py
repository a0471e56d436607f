"""Requests to a store that has trouble for a while are repeated, each time after a longer wait."""

import secrets
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ATTEMPTS = 6
FIRST_WAIT_S = 0.5
_FINAL = (  # in what the SDKs say: the same request would be refused for ever
    "ACCESS_DENIED", "NO_SUCH_BUCKET", "NO_SUCH_KEY", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH", "INVALID_TOKEN",
    "EXPIRED_TOKEN", "HTTP Status 400", "HTTP Status 401", "HTTP Status 403", "HTTP Status 404", "Permission denied",
)  # fmt: skip


def patiently(request: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
    """What the request returns; an error that may pass is waited for, half a minute in all."""
    for attempt in range(ATTEMPTS):
        try:
            return request(*arguments, **named)
        except FileNotFoundError:
            raise
        except OSError as error:
            if attempt == ATTEMPTS - 1 or is_final(error):
                raise
            wait = FIRST_WAIT_S * 2**attempt
            time.sleep(wait * (1 + secrets.randbelow(1000) / 1000))  # not all machines at the same moment
    raise AssertionError("unreachable")


def is_final(error: OSError) -> bool:
    """Whether repeating would not help."""
    return any(word in str(error) for word in _FINAL)
