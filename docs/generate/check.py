"""Write docs/check.md, the page of `neuroncore check`, from the table of codes.

python docs/generate/check.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from neuroncore.base.findings import CodeRule, tables

PAGE = Path(__file__).parents[1] / "check.md"

HEAD = """\
# neuroncore check

```text
neuroncore check FILE.py[::KERNEL] ... [--api 0.1 .. 0.6] [--target MACHINE] [--static] [--strict]
                 [--args ARG ... | --inputs FUNC] [--ranks N [--lnc 2] [--instance NAME]]
                 [--orders N] [--json] [--sarif OUT.sarif]
neuroncore check OUT.run ... [--orders N] [--json] [--sarif OUT.sarif]
```

`neuroncore check` reports the errors that the device or its compiler would report, likely mistakes,
and slow operations. It first checks the source: it reads the file and everything that its kernels
call, and executes none of it. Then it runs these kernels, and checks the records of the runs:

* the kernel that you name, if there are arguments for it (`--args`, `--inputs`, or a function
  `inputs` in the same file)
* each file that launches kernels under `if __name__ == "__main__":`, unless you name a kernel in it

The runs happen in a separate process with limits on time and memory (`--seconds`, `--memory`).
`--static` skips the runs. The last line says what was done.

`OUT.run` is a run that `neuroncore run --save` wrote. It has no source: its record is checked, and
nothing is run.

`--orders N` executes the record of each launch again, in up to N other legal orders of the
cores of all ranks. If the kernel has an affine_range of the older API, its iterations are also
executed in up to N other orders. The last line of the output says:

* how many unsynchronized pairs of accesses were reordered
* how many iterations were reordered
* whether all orders give results with the same bits

In Python, use `Run.orders(N)` instead of the option. These orders never change:

* If iterations add to the same sum, the additions keep the kernel's order, because another order
  may round differently.
* The instructions of one iteration keep their order, because no bits depend on it.
* The iterations of loops of today's API, which are unrolled, keep their order for the same reason.

| severity | meaning | exit code |
| --- | --- | --- |
| error | the device or its compiler refuses it, according to a public source | 1 |
| warning | likely wrong on the device | 0, with `--strict` 1 |
| note | worth knowing: no public source says that it is refused, or the sources disagree | 0 |
| advice | legal, but slower than necessary | 0 |

The exit code is 2 for wrong usage and 3 for a fault of neuroncore. If a run ends early, the last
line states the reason. The exit code then depends on the reason:

* It is 1 for an exception in a kernel, or in a function that computes its arguments or its
  reference.
* It depends on the findings alone for an exception in a script or in the import of the kernel's
  file, for an import that fails outside of a kernel, and for a limit that ended the run.

`neuroncore run` also checks the source. It reports errors and warnings of the source as warnings,
but with `--strict` it refuses a kernel with errors. In Python, `neuroncore.check(file, kernel=None,
api=None, target=None, static=False)` returns the findings as objects.

The check of the source cannot see values that exist only during a run. A run is not sandboxed: a
kernel's file can do anything that Python can.

`--api` names the release to check against: 0.1 is neuronxcc.nki up to SDK 2.26, and 0.2 to 0.6 are
nki of SDK 2.27 to 2.32. The default is the release that fits the kernel best, or the latest one if
several releases fit equally well. The release for which the check reports the fewest errors fits
best. If these numbers of errors are equal, the release with the fewest warnings fits best. Only
errors and warnings of two kinds count: names and parameters that a release lacks, and code that
only 0.2 accepts, such as `platform_target` or a number for `dge_mode`.

If the default is a release from 0.2 to 0.5, names and code that the latest release refuses are
reported too, one severity lower. To avoid these reports, name the release that you write for with
`--api`. If the kernel fits other releases equally well, the known issues of these releases are
reported as notes.

NKI has two front ends. The first one parses the source of a kernel and accepts only a subset of
Python. The rules about the Python subset are for this front end. The tracing front end of 0.6 runs
Python itself, so only DYNAMIC_CTRL and the rules of loops apply to it.

`neuroncore explain CODE` explains a code, with an example that is reported and a corrected example.

## In an editor and in CI

Text output has lines of the form `file:line:column: severity[CODE] sentence`. This is
a problem matcher for VS Code:

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
- repo: https://github.com/OWNER/neuroncore   # the address of your copy
  rev: v0.1.0
  hooks:
    - id: neuroncore-check
      files: ^kernels/
```
"""

TITLES = {
    "source": "Reported for the source",
    "older": "Reported for the source of the older API",
    "launch": "Reported during a launch",
    "record": "Reported for the record of a launch",
}


def page() -> str:
    parts = [HEAD]
    for name, table in sorted(tables().items(), key=lambda one: list(TITLES).index(one[0])):
        parts += [f"\n## {TITLES[name]}\n", *_rows(table.values())]
    return "\n".join(parts) + "\n\n`docs/generate/check.py` writes this page.\n"


def _rows(rules: Iterable[CodeRule]) -> Iterator[str]:
    yield "| code | | finding | reason | remedy | source |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for one in sorted(rules, key=lambda rule: rule.code):
        yield _row(one)


def _row(one: CodeRule) -> str:
    held = f"{one.severity}<br>{one.releases}" if one.releases else one.severity
    cells = (f"`{one.code}`", held, one.sentence, one.because, one.hint, one.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
