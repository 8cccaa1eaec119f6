"""Constructs that the language does not have: each row is reported in its example."""

import ast

from every import for_all

from neuroncore.checks.check import check
from neuroncore.lint import constructs

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
KERNEL = """@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
{body}
    nisa.dma_copy(dst=out, src=x)
    return out
"""


def codes(path, body):
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    path.write_text(HEAD + KERNEL.format(body=lines), "utf-8")
    return {one.code for one in check(path, static=True).findings}


@for_all("kind", constructs.CONSTRUCTS)
def test_a_construct_is_reported_in_its_example(kind, tmp_path):
    row = constructs.CONSTRUCTS[kind]
    assert any(type(node) is kind for node in ast.walk(ast.parse(row.example)))
    assert row.code in codes(tmp_path / "mine.py", row.example)


def test_code_without_constructs_has_no_finding(tmp_path):
    found = codes(tmp_path / "mine.py", "n = 1")
    assert not found & {row.code for row in constructs.CONSTRUCTS.values()}
