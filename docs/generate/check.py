"""Writes docs/check.md: what `neuroncore check` tells, from the table of codes.

python docs/generate/check.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from neuroncore.findings import Rule, tables

PAGE = Path(__file__).parents[1] / "check.md"

HEAD = """\
# neuroncore check

```text
neuroncore check FILE.py[::KERNEL] ... [--api 0.1 .. 0.6] [--target MACHINE] [--static] [--strict]
                 [--args ARG ... | --inputs FUNC] [--ranks N [--lnc 2] [--instance NAME]]
                 [--orders N] [--json] [--sarif OUT.sarif]
neuroncore check OUT.run ... [--orders N] [--json] [--sarif OUT.sarif]
```

tells what the device or its compiler refuses of a kernel, what is likely wrong there, and what is
slow. It reads the file and all that its kernels call, without executing any of it. A kernel with
arguments (`--args`, `--inputs`, or a function `inputs` beside it), and a file that launches kernels
under `if __name__ == "__main__":`, is then run as well, in a process of its own with limits of time
and memory (`--seconds`, `--memory`), and its record is checked; `--static` stops before that. The
last line says which of the two was done.

A saved run has no source: its record is checked, and nothing is run.

With `--orders N` the record of each launch is executed again in up to N other orders that the
device may take of its cores, those of all ranks together, and the last line says how many pairs of
accesses that no meeting orders came the other way round, and whether the bits are the same. Of the
older API's affine_range it is executed in up to N other orders of the iterations too, and the last
line says how many came at another place. Sums over iterations, which may be in any order, keep the
kernel's: in another order of the sum they may round otherwise. Within an iteration, and in loops of
today's API, which are unrolled, no bits depend on the order. In Python that is `Run.orders(N)`.

| severity | what it means | exit code |
| --- | --- | --- |
| error | the device or its compiler refuses it, by a public source | 1 |
| warning | likely wrong on the device | 0, with `--strict` 1 |
| note | worth knowing: no public source says that it is refused, or the sources disagree | 0 |
| advice | legal, and slower than need be | 0 |

Wrong usage is 2, a fault of neuroncore 3. `neuroncore run` tells errors and warnings of the source
as warnings, and with `--strict` refuses errors. In Python, `neuroncore.check(file, kernel=None,
api=None, target=None, static=False)` gives the same findings as objects. The source is not checked
for what depends on values that only a run has, and a run is no sandbox: what a kernel's file does,
it does.

`--api` names the release to hold a kernel against: 0.1 is neuronxcc.nki up to SDK 2.26, 0.2 to 0.6
are nki of SDK 2.27 to 2.32. By default it is the latest of those that the kernel fits best, by its
names and parameters, and by forms that 0.2 takes and later releases refuse, such as
`platform_target` or a number for `dge_mode`. What the later ones don't take of a kernel of an older
one is told a step milder, so name the release that you write for; and known issues
of older ones that the kernel would fit as well are notes. The rules of Python's subset are those of
the front end that parses a kernel's source; the tracing front end of 0.6 runs Python itself, and of
them only DYNAMIC_CTRL and the rules of loops hold for it.

`neuroncore explain CODE` shows a code with an example that is told and one that is not.

## In an editor and in CI

Text output has lines `file:line:column: severity[CODE] sentence`. A problem matcher for VS Code:

```json
{
  "owner": "neuroncore",
  "pattern": {
    "regexp": "^(.+?):(\\\\d+):(\\\\d+): (error|warning|note|advice)\\\\[(\\\\w+)\\\\] (.*)$",
    "file": 1, "line": 2, "column": 3, "severity": 4, "code": 5, "message": 6
  }
}
```

`--sarif OUT.sarif` writes SARIF 2.1.0, which code scanning reads. For pre-commit:

```yaml
- repo: https://github.com/OWNER/neuroncore   # where it is kept
  rev: v0.1.0
  hooks:
    - id: neuroncore-check
      files: ^kernels/
```
"""

TITLES = {
    "source": "Told by the source",
    "older": "Told by the source of the older API",
    "launch": "Told by a launch while it runs",
    "record": "Told by the record of a launch",
}


def page() -> str:
    parts = [HEAD]
    for name, table in sorted(tables().items(), key=lambda one: list(TITLES).index(one[0])):
        parts += [f"\n## {TITLES[name]}\n", *_rows(table.values())]
    return "\n".join(parts) + "\n\nThis page is written by `docs/generate/check.py`.\n"


def _rows(rules: Iterable[Rule]) -> Iterator[str]:
    yield "| code | | what | why | what to do | source |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one in sorted(rules, key=lambda rule: rule.code):
        yield _row(one)


def _row(one: Rule) -> str:
    held = f"{one.severity}<br>{one.releases}" if one.releases else one.severity
    cells = (f"`{one.code}`", held, one.sentence, one.because, one.hint, one.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
