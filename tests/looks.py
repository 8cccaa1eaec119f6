"""Checks of pages in a browser: the text of the first screen at three sizes, and visible faults of
the layout."""

from pathlib import Path

SIZES = (1440, 900, "light"), (1024, 768, "dark"), (390, 844, "light")
VIEW = Path(__file__).with_name("view")
FAULTS, SCREEN = (
    (VIEW / name).read_text("utf-8").partition("\n")[2] for name in ("look.js", "screen.js")
)
# The source is the same for all panes, so it is checked once.
PANES = f"""async () => {{
    const faults = {FAULTS}, found = faults();
    for (const {{ dataset: {{ pane }} }} of document.querySelectorAll("#tabs button")) {{
        view.set({{ pane }});
        await view.drawn();
        found.push(...faults(false).map((fault) => `${{pane}}: ${{fault}}`));
    }}
    return found;
}}"""
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


class Eyes:
    """Checks of many pages in one tab."""

    def __init__(self, tab):
        self.tab, self.page, self.glances = tab, tab.page, 0

    def open(self, path):
        """Open a page, and wait until it is painted."""
        if self.page.url.startswith(path.as_uri()):  # the same page again, in another size
            self.page.goto("about:blank")
        self.tab.open(path)
        self.page.evaluate(FRAME)

    def look(self, path, said, sizes=SIZES):
        """Check a page at each of the sizes, in light and dark. Return the words that are missing
        on the first screen, the faults of all panes, and errors of the browser."""
        found = []
        for width, height, scheme in sizes:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.emulate_media(color_scheme=scheme)
            self.open(path)
            screen = "".join(self.page.evaluate(SCREEN).split())
            missing = [f"not there: {word}" for word in said if "".join(word.split()) not in screen]
            found += [f"{width}: {one}" for one in missing + self.page.evaluate(PANES)]
        return found + self.tab.errors

    def glance(self, path, said):
        """Check a page at one size, which alternates: for many pages of the same layout."""
        self.glances += 1
        return self.look(path, said, [SIZES[self.glances % len(SIZES)]])
