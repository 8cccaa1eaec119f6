"""Run the candidates in the published traces of autocomp's searches, and compare them with numpy.

    python bench/conformance/autocomp_candidates.py CHECKOUT [-k SUBSTR] [--json]

A trace is one expression: a candidate that contains its parent, which contains its own parent, and
so on. The innermost one is the kernel with which the search began, candidate 0. Latencies of these
candidates on trn1 are published. Each candidate is launched on the first inputs that the harness of
its problem makes.

In four candidates some characters of one or two lines are missing. These lines are completed from
other published texts of the same search, which have the same lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from autocomp import MARK, case, parted
from outcome import Outcome, options, told

SEARCHES = {
    "trn-tutorial/1_gemm": "trn-tutorial-nki1/2_gemm_test",
    "trn-tutorial/4_attention": "trn-tutorial-nki1/4_attention_test",
    "trn-tutorial/5_sd_attention": "trn-tutorial-nki1/5_sdattention_test",
    "trn-advanced/4_conv1d": "trn-advanced-nki1/4_conv1d_test",
}
DAMAGED = {  # (search, candidate) -> the numbers of the damaged lines
    ("trn-tutorial/1_gemm", 2): (40,),
    ("trn-tutorial/1_gemm", 3): (59, 168),
    ("trn-tutorial/1_gemm", 4): (82,),
    ("trn-tutorial/1_gemm", 5): (19,),
}
ENDING = """
def enough(*args, **kwargs):
    raise SystemExit

np.random.seed(0)
test_nki({kernel}, enough)
"""


def candidates(trace: str) -> list[str]:
    """Return the sources of a trace's candidates in order, beginning with candidate 0."""
    found = []
    node = ast.parse(trace, mode="eval").body
    while isinstance(node, ast.Call):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        found.append(str(ast.literal_eval(given["code"])))
        node = given["parent"]
    return found[::-1]


def whole(candidate: str, line: int, others: str) -> str:
    """Return a candidate with one line completed. The missing beginning is taken from `others`:
    from a line with the same ending that is followed by the same line."""
    lines = candidate.splitlines(keepends=True)
    damaged, after = lines[line - 1], lines[line]
    for at in range(1, len(damaged)):
        ending = re.escape(damaged[at:] + after)
        if found := re.search(f"^(.*){ending}", others, re.MULTILINE):
            lines[line - 1] = found[1] + damaged[at:]
            return "".join(lines)
    raise ValueError(f"no other text has line {line}: {damaged}")


def launched(harness: str, candidate: str) -> str:
    """Return the source of a harness that makes its inputs, launches a candidate on them, and
    ends."""
    body, _ = parted(harness)
    assert body.count(MARK) == 1, "the harness does not have exactly one mark for a solution"
    functions = [node for node in ast.parse(candidate).body if isinstance(node, ast.FunctionDef)]
    return body.replace(MARK, candidate) + ENDING.format(kernel=functions[-1].name)


def script(checkout: Path, search: str, number: int) -> str:
    """Return the source of a search's harness that launches one of its candidates once. Damaged
    lines of the candidate are completed."""
    harness = (checkout / "harnesses" / f"{SEARCHES[search]}.py").read_text()
    found = candidates((checkout / "examples" / f"{search}_trace.py").read_text())
    best = (checkout / "examples" / f"{search}_opt.py").read_text()
    candidate = found[number]
    others = "\n".join((best, *(text for text in found if text != candidate)))
    for line in DAMAGED.get((search, number), ()):
        candidate = whole(candidate, line, others)
    return launched(harness, candidate)


def outcomes(checkout: Path, wanted: str, seconds: float, gigabytes: float) -> Iterator[Outcome]:
    for search, table in SEARCHES.items():
        trace = (checkout / "examples" / f"{search}_trace.py").read_text()
        for number in range(len(candidates(trace))):
            name = f"{search} candidate {number}"
            if wanted in name:
                text = script(checkout, search, number)
                yield case(name, text, table, "trn1", seconds, gigabytes)


def main() -> int:
    given = options(__doc__, "checkout").parse_args()
    ran = outcomes(given.checkout, given.k, given.timeout, given.memory)
    return told("autocomp candidates", ran, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
