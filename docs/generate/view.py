"""Take the pictures of docs/view.md: screenshots of the pages of kernels, in a headless Chromium.

python docs/generate/view.py    # needs playwright, and Chromium on the path
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from shutil import which

from playwright.sync_api import Browser, sync_playwright

from neuroncore.cli import main

DOCS = Path(__file__).parents[1]
KERNELS = DOCS.parent / "kernels"
SIZE = {"width": 1400, "height": 860}

# For each picture: a kernel in kernels/, the fragment of the page's address, and light or dark.
PICTURES = {
    "view_first": ("ch07_attention.py::attention", "", "light"),
    "view_steps": ("ch07_attention.py::attention", "step=60", "light"),
    "view_memory": ("ch07_attention.py::attention", "step=118&pane=memory", "dark"),
    "view_values": (
        "ch07_attention.py::attention",
        "step=65&pane=values&operand=2&element=40,300",
        "light",
    ),
    "view_array": ("ch05_matmul.py::naive", "step=2&pane=array&cycle=300&cell=30,40", "dark"),
    "view_line": ("ch05_matmul.py::naive", "line=3&pane=whatif", "light"),
}


def picture(browser: Browser, page: Path, fragment: str, scheme: str, to: Path) -> None:
    """Write a screenshot of a page at a fragment of its address."""
    tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
    tab.goto(f"{page.as_uri()}#{fragment}")
    tab.evaluate("window.ready")
    tab.screenshot(path=to)
    tab.close()


def take() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox"]
        )
        for name, (kernel, fragment, scheme) in PICTURES.items():
            page = Path(folder) / f"{kernel.replace('::', '_')}.html"
            if not page.exists():
                main(["view", f"{KERNELS}/{kernel}", "-o", str(page)])
            picture(browser, page, fragment, scheme, DOCS / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    take()
