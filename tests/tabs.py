"""A browser without a network, to test pages."""

from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")


class Tab:
    """A page that is open in a browser without a network, with its requests and errors."""

    def __init__(self, page):
        self.page, self.requests, self.errors = page, [], []
        self.heard = {
            "request": lambda request: self.requests.append(request.url),
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": self._noted,
        }
        for event, heard in self.heard.items():
            page.on(event, heard)

    def _noted(self, message):
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.errors.append(message.text)

    def open(self, path: Path, fragment=""):
        self.page.goto(f"{path.as_uri()}#{fragment}")
        return self.page.evaluate("window.ready")

    def leave(self):
        """Show an empty page, and record no more events."""
        for event, heard in self.heard.items():
            self.page.remove_listener(event, heard)
        self.page.goto("about:blank")

    def text(self, selector):
        return self.page.inner_text(selector)

    def does(self, script):
        return self.page.evaluate(script)

    def pixel(self, x, y, canvas="#timeline canvas"):
        """The color of a canvas there, red, green and blue."""
        script = """([canvas, x, y]) => {
            const found = document.querySelector(canvas), scale = found.width / found.clientWidth;
            const data = found.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data;
            return [...data].slice(0, 3);
        }"""
        return self.page.evaluate(script, [canvas, x, y])


@contextmanager
def browser():
    """A headless Chromium; the test is skipped if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


USUAL = {"width": 1400, "height": 900}


@contextmanager
def tab(opened, viewport=USUAL, scheme="light", offline=True):
    """An empty tab, of a browser without a network if `offline`. It is the same tab for all tests,
    because a new one takes longer than most tests."""
    if not opened.contexts:
        opened.new_context().new_page()
    (context,) = opened.contexts
    (page,) = context.pages
    context.set_offline(offline)
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=scheme)
    made = Tab(page)
    yield made
    made.leave()
