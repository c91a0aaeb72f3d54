"""A real browser before a real bridge.

Emulated lab, a renderer that numbers its pictures, headless Chromium.

Everything that a page asks for and says is kept: requests, errors on the console, uncaught
exceptions.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.common import ROOT, wait_until
from tests.support.harness import NAMES, Rig

WEB: Final = ROOT / "vil_bridge" / "web" / "frontend"
STATIC: Final = WEB.parent / "static"
CHROMIUM: Final = "/usr/bin/chromium"
LIMIT_MS: Final = 120_000
_SWITCHES: Final = (
    *(
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ),
    *("--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    # The world alone is drawn by OpenGL in software; all else would be, at five times the cost.
    "--disable-gpu",
    # The address line's two pages of its own cost as much as ours; the others, Playwright switches
    # off too.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,HttpsUpgrades,"
    "OptimizationHints,PaintHolding",
)
# The world, which is drawn in software, is out of sight.
_SMALL: Final = {"width": 400, "height": 300}
_FOV_Y_DEG: Final = 70.0
_RATE_HZ: Final = 10.0  # leaves the processor to a browser that draws in software


class PageRig(Rig):
    """Lab, painter and daemon of the demonstration.

    All its cameras have one lens, as the original program wants.
    """

    def _all_commands(self, preset: Path, overrides: Mapping[str, object]) -> dict[str, list[str]]:
        lenses = {
            f"cameras__{camera}__fov_y_deg": _FOV_Y_DEG for camera in ("front", "plain", "observer")
        }
        own: dict[str, object] = {"record__folder": self.folder / "recordings"}
        own |= {
            f"cameras__{camera}__rate_hz": _RATE_HZ for camera in ("front", "plain", "observer")
        }
        commands = super()._all_commands(preset, {**lenses, **own, **overrides})
        ports = [str(self.pose_port), str(self.image_port)]
        return {**commands, "renderer": [sys.executable, "-m", "tests.browser.painter", *ports]}

    def start_all(self) -> None:
        """Start what does not run, all but an onboard client, and wait until everything works."""
        names = [name for name in ("daemon", "renderer", "lab") if not self.alive(name)]
        self.start(*names)
        for name in names:
            self.await_ready(name)
        wait_until(
            lambda: self.get()["ready"] and self.get()["cameras"]["front"]["age_s"],
            40.0,
            self.trouble,
        )

    def stop_all(self) -> None:
        """End what runs, until the next :meth:`start_all`."""
        for name in filter(self.alive, NAMES):
            self.kill(name)

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://127.0.0.1:{self.http_port}/"


@dataclass
class Watched:
    """A page and what it did."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def assert_at_peace(self, url: str) -> None:
        """Check that no request left the host that serves ``url``, and that nothing was
        complained of.
        """
        own = (url, url.replace("http", "ws", 1), "data:", "blob:")
        foreign = [request for request in self.requests if not request.startswith(own)]
        assert (self.errors, foreign) == ([], [])
        assert len(self.requests) > 5

    def scroll_to(self, selector: str) -> None:
        """Bring an element to the top, once it is there: much is asked for only then.

        What is above it is out of sight: a strip of the world would have all of it drawn.
        """
        self.page.locator(selector).evaluate(
            "part => part.scrollIntoView({block: 'start'})", timeout=LIMIT_MS
        )

    def until(self, condition: str, argument: object = None) -> None:
        """Wait for a JavaScript function that returns true.

        An element that is not there yet is waited for, too.
        """
        patient = (
            f"x => {{ try {{ return ({condition})(x) }} catch (e) {{ if (!(e instanceof "
            f"TypeError)) throw e }} }}"
        )
        self.page.wait_for_function(patient, arg=argument, timeout=LIMIT_MS, polling=50)


def needs_page() -> None:
    """Build the page where it is missing or old; skip the test where Node or Chromium is absent."""
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium: apt-get install chromium")
    if not (shutil.which("node") and (WEB / "node_modules").exists()):
        pytest.skip("the page cannot be built: make web")
    with (WEB / "node_modules" / ".built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes come here at once
        page = STATIC / "index.html"
        sources = [*WEB.glob("src/**/*.*"), *WEB.glob("*.html"), WEB / "build.mjs"]
        if (
            not page.exists()
            or max(file.stat().st_mtime for file in sources) > page.stat().st_mtime
        ):
            subprocess.run(["node", "build.mjs"], cwd=WEB, check=True)


@contextmanager
def chromium(*switches: str) -> Iterator[Browser]:
    """A headless browser that draws WebGL 2 in software."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", *_SWITCHES, *switches], timeout=LIMIT_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched(
    browser: Browser, url: str, prepare: Callable[[BrowserContext], None] | None = None, **look: Any
) -> Iterator[Watched]:
    """A page of a new context.

    Args:
        browser: that opens it.
        url: where it goes.
        prepare: gets the context before the page is opened.
        look: of the context: ``color_scheme``, ``viewport`` (a small one unless stated)...
    """
    context = browser.new_context(**{"viewport": _SMALL, **look})
    if prepare is not None:
        prepare(context)
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    seen = Watched(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("websocket", lambda socket: seen.requests.append(socket.url))
    page.on(
        "console",
        lambda message: seen.errors.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    try:
        page.goto(url, timeout=LIMIT_MS, wait_until="commit")
        yield seen
    finally:
        context.close()
