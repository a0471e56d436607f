"""Joining a Ray cluster, or starting one on this machine."""

import os
from typing import Any

import grpc
import ray
from ray._private.utils import read_ray_address  # of the file that `ray.init` itself looks at
from ray.exceptions import AuthenticationError, RayError

from gscl_scale.errors import ConfigError, RunError
from gscl_scale.runtime.local import num_workers

_CONNECT_S = 5.0
_STORE_BYTES = 100_000_000  # arguments and results are a few bytes, and /dev/shm is small in containers


def join(setting: str) -> None:
    """Join the cluster that is named, else one that runs on this machine, else start one here for this process."""
    named, by = (setting, "runtime.address") if setting else (os.environ.get("RAY_ADDRESS", ""), "RAY_ADDRESS")
    if named in ("", "auto") and (found := read_ray_address()) and _answers(found):
        _init(found, by, address="auto")
    elif named in ("", "local"):
        _start_here()
    elif named == "auto":
        raise ConfigError(f"{by}: no Ray cluster runs on this machine; start one with ray start --head, or name one")
    elif "://" in named:
        raise ConfigError(
            f"{by}: expected HOST:PORT of the head of a Ray cluster, such as 10.0.0.1:6379, got {named}; "
            "to start the work from outside the cluster use ray job submit"
        )
    elif not _answers(named):
        raise ConfigError(
            f"{by}: no Ray cluster answers at {named}; expected HOST:PORT of the head of a running cluster, "
            "as ray start --head prints it"
        )
    else:
        _init(named, by, address=named)


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _answers(address: str) -> bool:
    """Whether a server of gRPC is there: Ray itself would try for minutes."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return True  # Ray has the certificates
    channel = grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)])
    try:
        grpc.channel_ready_future(channel).result(timeout=_CONNECT_S)
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True


def _start_here() -> None:
    try:
        _quietly(address="local", num_cpus=num_workers(0), include_dashboard=False, object_store_memory=_STORE_BYTES)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise RunError(
            f"Ray could not be started on this machine: {first_line(error)}; mend this, or set runtime.engine to local"
        ) from None


def _init(place: str, by: str, address: str) -> None:
    try:
        _quietly(address=address)
    except AuthenticationError as error:
        raise ConfigError(
            f"{by}: the Ray cluster at {place} wants a token: {first_line(error)}; "
            "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the token of the cluster"
        ) from None
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ConfigError(
            f"{by}: joining the Ray cluster at {place} failed: {first_line(error)}; "
            "expected the head of a running cluster with the versions of Ray and Python of this process"
        ) from None


def _quietly(**options: Any) -> None:
    """What tasks print stays in the logs of the cluster, and progress stays readable."""
    ray.init(log_to_driver=False, logging_level="error", **options)
