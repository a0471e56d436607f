"""A headless Chromium that is controlled over its DevTools protocol."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

from gscl_scale.errors import RunError, UserError

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_WAIT_S = 60.0
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--remote-debugging-port=0", "--remote-allow-origins=*",
)  # fmt: skip
_COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")


@contextlib.contextmanager
def chromium() -> Iterator["Browser"]:
    """Yield a browser with its own profile and without a network; it ends with the block."""
    if CHROMIUM is None:
        raise UserError("there is no chromium, chromium-browser or google-chrome on the path; install one of them")
    with tempfile.TemporaryDirectory(prefix="gscl-scale-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            address = _address(Path(profile), process)
            with contextlib.closing(websocket.create_connection(address, timeout=_WAIT_S)) as socket:
                yield Browser(socket)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all processes that it has started
                process.wait()


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ValueError):
            port, path = (profile / "DevToolsActivePort").read_text(encoding="ascii").split()
            return f"ws://127.0.0.1:{port}{path}"
        time.sleep(0.05)
    raise RunError("the browser did not start")


class Browser:
    """One browser; every page has its own tab."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._next = 0
        self.events: list[Any] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Call a method and return its result; events that arrive before it are stored."""
        self._next += 1
        request = {"id": self._next, "method": method, "params": parameters}
        self._socket.send(json.dumps({**request, "sessionId": session} if session else request))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RunError(f"the browser refuses {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False) -> "Tab":
        """Open a page and wait until it is loaded and its map drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, path)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        tab.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        began = time.monotonic()
        tab.call("Page.navigate", url=path.absolute().as_uri())
        tab.wait("document.readyState === 'complete'")
        if tab.run("!!document.getElementById('map')"):
            tab.wait("document.getElementById('map').dataset.ready === 'yes'")
        tab.seconds = time.monotonic() - began
        return tab


class Tab:
    """A page in the browser."""

    def __init__(self, browser: Browser, session: str, path: Path) -> None:
        self._browser, self._session, self._path = browser, session, path
        self.seconds = 0.0

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method for this page."""
        return self._browser.call(method, self._session, **parameters)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RunError(f"the page fails: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            if self.run(condition):
                return
            time.sleep(0.02)
        raise RunError(f"the page does not reach {condition} within {_WAIT_S:.0f} s")

    def point(self, x: float, y: float, click: bool = False) -> None:
        """Move the pointer, and click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self) -> list[str]:
        """Messages of the console, errors, and the addresses of requests to a network."""
        self.run("0")  # receives the events so far
        events = [event for event in self._browser.events if event.get("sessionId") == self._session]
        messages = [json.dumps(event["params"]) for event in events if event["method"] in _COMPLAINTS]
        requests = [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        return [*messages, *(url for url in requests if url != self._path.absolute().as_uri())]
