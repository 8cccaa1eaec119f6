"""Checks of pages in a browser: the text of the first screen at three sizes, visible faults of the
layout, and the CPU time until the page is complete."""

from pathlib import Path

import tabs

SIZES = (1440, 900, "light"), (1024, 768, "dark"), (390, 844, "light")
VIEW = Path(__file__).with_name("view")
FAULTS, SCREEN = (
    (VIEW / name).read_text("utf-8").partition("\n")[2] for name in ("look.js", "screen.js")
)
PANES = f"""async () => {{
    const faults = {FAULTS}, found = [];
    for (const {{ dataset: {{ pane }} }} of document.querySelectorAll("#tabs button")) {{
        view.set({{ pane }});
        await view.drawn();
        found.push(...faults().map((fault) => `${{pane}}: ${{fault}}`));
    }}
    return found.concat(faults());
}}"""
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


class Eyes:
    """One tab for many pages, because a new tab takes longer than a check of a page."""

    def __init__(self, opened):
        context = opened.new_context(offline=True)
        self.tab = tabs.Tab(context.new_page())
        self.page, self.tools = self.tab.page, context.new_cdp_session(self.tab.page)
        self.tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.seconds, self.glances = {}, 0

    def open(self, path):
        """Open a page, and note the CPU time of its thread until it is complete and painted."""
        self.page.goto("about:blank")
        since = self._cpu()
        self.tab.open(path)
        self.page.evaluate(FRAME)
        took = self._cpu() - since
        self.seconds[path.stem] = min(took, self.seconds.get(path.stem, took))

    def _cpu(self):
        metrics = self.tools.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

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
