r"""The code blocks of README.md, and the output of commands on other pages, are run.

`python tests/readme.py` writes the output into the pages."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = README, ROOT / "docs/why.md", ROOT / "docs/diff.md"  # pages with output of commands
BIN = Path(sys.executable).parent
PRINTED = re.compile(r"<!-- prints: (.+?) -->\n```text\n(.*?)```", re.DOTALL)
FENCE = re.compile(r"^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMPILING = "neuroncore: compiling loops (once per install)\n"
VERSION = re.compile(r"\d+(\.\d+)+")


def blocks(language):
    """The text of every block of one language."""
    return [body for found, body in FENCE.findall(README.read_text()) if found == language]


def shown():
    """Yield each command that a page shows, with its output."""
    return [found for page in PAGES for found in PRINTED.findall(page.read_text())]


def prepare(folder):
    """Put the files that the commands need into a folder: kernels/, first.py and its illegal
    twin."""
    (folder / "kernels").symlink_to(ROOT / "kernels")
    first = next(body for body in blocks("python") if body.startswith("# first.py"))
    (folder / "first.py").write_text(first)
    (folder / "bad.py").write_text(first.replace("128, 512)", "129, 512)"))


def run(command, folder):
    """Run a shell command in the folder, with neuroncore's commands first on the path; return the
    finished process."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "NKI_"))}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**environment, "PATH": path, "NEURONCORE_PROGRESS": "0"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def setup_command(line):
    """A set-up line changed for an environment with everything installed; only a few tests are
    collected."""
    line = line.replace(".venv/bin/", f"{shlex.quote(str(BIN))}/")
    some = ROOT / "tests/test_packaging.py"
    return line.replace("-q -n auto", f"-q --collect-only {shlex.quote(str(some))}")


def without_versions(text):
    first, _, rest = text.partition("\n")
    return f"{VERSION.sub('x', first) if first.startswith('neuroncore ') else first}\n{rest}"


def replacement(shown, folder):
    """The text of a page about a command, with its current output."""
    printed = run(shown[1], folder).stdout.replace(COMPILING, "")
    return f"<!-- prints: {shown[1]} -->\n```text\n{printed}```"


def main():
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for page in PAGES:
            page.write_text(PRINTED.sub(lambda m: replacement(m, Path(name)), page.read_text()))


if __name__ == "__main__":
    main()
