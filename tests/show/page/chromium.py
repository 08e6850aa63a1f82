"""A headless Chromium, spoken to over a pipe: what a page does, what it asks for, and how it looks."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

Message = dict[str, Any]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Chromium reads its commands from file descriptor 3 and answers on 4.
_START = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_WATCHED = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Audits.issueAdded")


def require_chromium() -> str:
    """Its path. Skip the calling test where it is missing, or fail it where live tests are required."""
    for name in _NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    reason = "tests of the pages need chromium on the PATH"
    if os.environ.get("REQUIRE_LIVE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


class Chromium:
    """One browser with one tab."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands = commands
        self._answers = answers
        self._number = 0
        self._session: str | None = None
        self._events: list[Message] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self._call(f"{domain}.enable")

    def open(self, page: Path | str, *, width: int = 1280, dark: bool = False) -> None:
        """Show a page, a file or what is at an address, until it is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        self._events.clear()
        self._call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self._wait_until_loaded()

    def leave(self, expression: str) -> None:
        """Run some JavaScript that leads to another page, until that one is loaded."""
        self._events.clear()
        self.evaluate(expression)
        self._wait_until_loaded()

    def _wait_until_loaded(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())
        self.evaluate("new Promise(drawn => requestAnimationFrame(() => drawn()))")  # what has autofocus gets it before

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401
        """The value of some JavaScript, run in the page by the browser itself."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[Message]:
        """Whatever the console shows, exceptions, and what the browser itself has to say against the page."""
        self.evaluate("1")  # earlier events are read before the answer
        return [event for event in self._events if event["method"] in _WATCHED]

    @property
    def requests(self) -> list[str]:
        self.evaluate("1")
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path, *, width: int = 1280, height: int | None = None) -> None:
        """The whole page as it is shown, or its upper part of this size."""
        clip = {} if height is None else {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        picture = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **clip)["data"]
        path.write_bytes(base64.b64decode(picture))

    def use_paper(self) -> None:
        """Lay the page out as it would be printed."""
        self._call("Emulation.setEmulatedMedia", media="print")

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")

    def _call(self, method: str, **params: object) -> Message:
        self._number += 1
        message: Message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, (method, answer)
        return dict(answer["result"])

    def _read(self) -> Message:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "chromium has ended"
            data += byte
        return dict(json.loads(data))


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own, which ends with the block."""
    arguments = [
        require_chromium(),
        "--headless=new",
        "--no-sandbox",  # root, in a container
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    for_it, commands = os.pipe()
    answers, of_it = os.pipe()
    command = [sys.executable, "-c", _START, str(for_it), str(of_it), *arguments]
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(for_it, of_it), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    os.close(for_it)
    os.close(of_it)
    with open(commands, "wb") as writing, open(answers, "rb") as reading:  # noqa: PTH123
        browser: Chromium | None = None
        try:
            browser = Chromium(writing, reading)
            yield browser
            browser.close()
            process.wait(30)
        finally:
            process.kill()
            process.wait()
