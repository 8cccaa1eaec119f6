"""`neuroncore view --watch`: the page again when its source changes."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from neuroncore.cli import terminal

SECONDS = 0.3  # between two looks at the files
ONCE = "--watch", "--open"  # options of the first page only


def watch(arguments: argparse.Namespace) -> int:
    """Write the page in a new process, which imports the files as they are now, and again after
    each change of a Python file in the folder of the kernel, until Ctrl-C."""
    folder = Path(arguments.file.partition("::")[0]).resolve().parent
    words = [word for word in arguments.words if word not in ONCE]
    opens = ["--open"] * arguments.open
    code = 0
    while True:
        seen = _changes(folder)
        command = [sys.executable, "-m", "neuroncore", words[0], "--watched", *opens, *words[1:]]
        code, opens = subprocess.run(command, check=False).returncode, []
        if code == 2:
            return code  # wrong usage
        terminal.write(f"watching   {folder} (Ctrl-C ends it)")
        while _changes(folder) == seen:
            time.sleep(SECONDS)


def _changes(folder: Path) -> dict[Path, int]:
    """Return when each Python file of a folder was last changed."""
    found = {}
    for path in folder.glob("*.py"):
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:  # an editor replaces it
            continue
    return found
