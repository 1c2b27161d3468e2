"""Chromium without a window, commanded over its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.patience import patience

_BECOME = (
    "import fcntl, os, sys; ends = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]; "
    "os.dup2(ends[0], 3); os.dup2(ends[1], 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
"""Becomes the browser, which reads commands from file descriptor 3 and answers on 4."""


class Browser:
    """One page of a given width, light or dark."""

    def __init__(self, program: str, folder: Path, url: str, width: int, dark: bool = False) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        words += [f"--user-data-dir={folder / f'profile-{width}-{dark}'}", "about:blank"]
        words += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BECOME, str(theirs_in), str(theirs_out), *words],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out):
            os.close(end)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._number, self._session, self.requests = 0, None, list[str]()
        (target,) = (each for each in self._do("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self._do("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self._do("Network.enable")
        self._do(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._do("Emulation.setEmulatedMedia", features=[scheme])
        self._do("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Return what an expression of the page comes to."""
        told = self._do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> Any:
        """Wait until an expression comes to something true, and return it."""
        end = time.monotonic() + patience(seconds)
        while not (found := self.value(script)):
            assert time.monotonic() < end, (
                f"{script} never came; the page says {self.value('document.body.innerText')}"
            )
            time.sleep(0.1)
        return found

    def press(self, key: str) -> None:
        """Press and let go of a key."""
        for kind in ("keyDown", "keyUp"):
            self._do(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_CODES[key]
            )

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        size = self._do("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        told = self._do("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(patience(30))
        self._out.close()
        self._in.close()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            said = json.loads(self._read())
            if said.get("method") == "Network.requestWillBeSent":
                self.requests.append(said["params"]["request"]["url"])
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]

    def _read(self) -> bytes:
        parts = []
        while (byte := self._in.read1(1)) != b"\0":  # type: ignore[attr-defined]
            assert byte, "the browser has ended"
            parts.append(byte)
        return b"".join(parts)


_CODES = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36}
