"""Pages of small kernels, and a browser to look at them with."""

import base64
import json
import re
import zlib
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")


@nki.jit
def product(a_t, b):
    """a_t.T @ b + 1, one tile of the result after the other."""
    (depth, rows), columns = a_t.shape, b.shape[1]
    c = nl.ndarray((rows, columns), nl.float32, buffer=nl.shared_hbm)
    for n in range(0, columns, 64):
        left = nl.ndarray((depth, rows), a_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a_t)
        right = nl.ndarray((depth, 64), b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[:, n : n + 64])
        total = nl.ndarray((rows, 64), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        result = nl.ndarray((rows, 64), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=total, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=c[:, n : n + 64], src=result)
    return c


def operands(columns=256):
    rng = np.random.default_rng(0)
    shapes = (128, 96), (128, columns)
    return [rng.standard_normal(shape).astype(nl.bfloat16) for shape in shapes]


def run(columns=256):
    return neuroncore.run(product, *operands(columns))


def document(page):
    """What a page has in it, of its text."""
    return json.loads(re.search(r'id="document">(.*?)</script>', page.html, re.DOTALL)[1])


def column(core, name):
    """A column of a document as numbers."""
    packed = core["columns"][name]
    values = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), packed["type"])
    values = values.astype(np.int64)
    return np.cumsum(values) if packed.get("sums") else values


class Tab:
    """A page that is open in a browser without a network, and what it asked for and complained."""

    def __init__(self, page):
        self.page, self.requests, self.errors = page, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._noted)

    def _noted(self, message):
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.errors.append(message.text)

    def open(self, path: Path, fragment=""):
        self.page.goto(f"{path.as_uri()}#{fragment}")
        return self.page.evaluate("window.ready")

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
    """A headless Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def tab(opened, **options):
    options = {"viewport": {"width": 1400, "height": 900}, "offline": True, **options}
    context = opened.new_context(**options)
    yield Tab(context.new_page())
    context.close()
