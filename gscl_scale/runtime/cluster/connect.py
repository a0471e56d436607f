"""Joining a Ray cluster, or starting one on this machine, and leaving it as it was."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import ray
from ray._private import worker as ray_driver
from ray._private.utils import read_ray_address  # of the file that `ray.init` itself looks at
from ray.exceptions import AuthenticationError, RayError, RayTaskError

from gscl_scale.errors import ConfigError, RunError
from gscl_scale.machine import num_cores

_CONNECT_S = 5.0
_STORE_BYTES = 100_000_000  # arguments and results are a few bytes, and /dev/shm is small in containers
_LINE = 160  # characters of a message of Ray
_RAY_TIMEOUT, _SHARE_OF_TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s", 0.75
_KEPT = "finished work is kept: check with ray status that the cluster is healthy, and run again"


@contextlib.contextmanager
def join_cluster(setting: str) -> Iterator[None]:
    """Join the named cluster, else one that runs on this machine, else start one here and stop it at the end.

    A program that has joined a cluster already stays there.
    """
    if ray.is_initialized():
        yield
        return
    with _short_messages(), contextlib.ExitStack() as watching:
        try:
            with _own_signals():
                _join(setting)
            watching.enter_context(_watched())
            yield
        except BaseException:
            if not _is_lost():  # else Ray would end the process at once, before the user has read the reason
                ray.shutdown()
            raise
        if _is_lost():
            raise RunError(f"the Ray cluster was lost; {_KEPT}")
        ray.shutdown()  # may hang while the cluster is being lost


def _is_lost() -> bool:
    """Whether the head, or Ray's own process on this machine, is gone."""
    if not ray.is_initialized():
        return False
    with socket.socket(socket.AF_UNIX) as store:
        try:
            store.connect(ray_driver.global_worker.node.plasma_store_socket_name)
        except OSError:
            return True
    return not _answers(ray.get_runtime_context().gcs_address)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """End this process with a sentence if the head of the cluster is lost: Ray would end it soon without a word.

    The main thread may wait for an answer that never comes, so that it cannot raise an error.
    """
    over, address = threading.Event(), ray.get_runtime_context().gcs_address
    patience = _SHARE_OF_TIMEOUT * float(os.environ.get(_RAY_TIMEOUT, "60"))

    def watch() -> None:
        heard = time.monotonic()
        while not over.wait(min(_CONNECT_S, patience / 4)):
            if _answers(address):
                heard = time.monotonic()
            elif time.monotonic() - heard > patience and not over.is_set():
                print(
                    f"gscl-scale: the Ray cluster at {address} was lost, its head is silent for {patience:.0f} s; "
                    f"{_KEPT}",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)

    threading.Thread(target=watch, name="watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _join(setting: str) -> None:
    named, by = (setting, "runtime.address") if setting else (os.environ.get("RAY_ADDRESS", ""), "RAY_ADDRESS")
    if named in ("", "auto") and (found := read_ray_address()) and _answers(found):
        _init(found, by, address=named or None)  # not by its address: only so does Ray look for the token by itself
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
    elif os.environ.get("RAY_AUTH_MODE") != "token" and _greet(named) == grpc.StatusCode.UNAUTHENTICATED:
        raise _no_token(named, by)  # only in this mode Ray looks for the token of a cluster with an address
    else:
        _init(named, by, address=named)


@contextlib.contextmanager
def temporary_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while: Ray takes some settings only from those of the driver."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def error_line(error: BaseException) -> str:
    """One line of an error: its first, but the last if a task raised it, after any traceback."""
    lines = [line.strip() for line in str(getattr(error, "cause", error)).splitlines() if line.strip()]
    line = (lines or [type(error).__name__])[-1 if isinstance(error, RayTaskError) else 0].rstrip(".")
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _greet(address: str) -> grpc.StatusCode:
    """How the head of a cluster answers a small request; `ray.init` itself would try for minutes."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return grpc.StatusCode.UNKNOWN  # only Ray has the certificates
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")(b"", timeout=_CONNECT_S)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def _answers(address: str) -> bool:
    return _greet(address) not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def _start_here() -> None:
    try:
        _quietly(address="local", num_cpus=num_cores(), include_dashboard=False, object_store_memory=_STORE_BYTES)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise RunError(
            f"Ray could not be started on this machine: {error_line(error)}; fix this, or set runtime.engine to local"
        ) from None


def _init(place: str, by: str, address: str | None) -> None:
    try:
        _quietly(address=address)
    except AuthenticationError:
        raise _no_token(place, by) from None
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ConfigError(
            f"{by}: joining the Ray cluster at {place} failed: {error_line(error)}; expected the head of a running "
            "cluster with the versions of Ray and Python of this process, and in RAY_AUTH_TOKEN its token, if it has "
            "one"
        ) from None


def _no_token(place: str, by: str) -> ConfigError:
    return ConfigError(
        f"{by}: the Ray cluster at {place} wants a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or "
        "RAY_AUTH_TOKEN_PATH to what ray get-auth-token prints on its head"
    )


def _quietly(**options: Any) -> None:
    """Join without the output of tasks: it stays in the logs of the cluster, and progress stays readable."""
    try:
        ray.init(log_to_driver=False, logging_level="error", **options)
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise RuntimeError(error) from None  # Ray raises a bare one where its processes do not start within 30 s


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM: that of Ray would end the process without a word, whatever it is doing."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _short_messages() -> Iterator[None]:
    """Print one line to standard error where Ray prints pages of the log of a lost machine to standard output.

    Ray has no setting for it, so that its function is replaced as long as this process is part of the cluster.
    """
    printed = ray_driver.print_to_stdstream
    ray_driver.print_to_stdstream = lambda data, **_: print(
        "ray:", error_line(RuntimeError(*data["lines"])), file=sys.stderr
    )
    try:
        yield
    finally:
        ray_driver.print_to_stdstream = printed
