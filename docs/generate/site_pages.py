"""Write the generated pages of the site: one for each instruction and each error, the commands with
their options, and the machines. `docs/conf.py` calls `write` at the start of a build. As a command,
this file writes the exercises into the pages of the lectures."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

from neuroncore import cli, machine
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.cli import explain
from neuroncore.plain.reading import meaning
from neuroncore.puzzles.exercise import Exercise, exercises

DOCS = Path(__file__).parents[1]
HEADING = "## Exercises\n\n"
CHAPTERS = {  # the kernel that a chapter's page runs
    "ch01_add": "add",
    "ch02_softmax": "softmax",
    "ch03_rmsnorm": "rmsnorm",
    "ch04_layernorm": "layernorm",
    "ch05_matmul": "blocked",
    "ch06_transpose": "transpose",
    "ch07_attention": "attention",
    "ch08_mlp": "swiglu",
    "ch09_digits": "classify",
    "ch10_rounding": "running_sums",
    "ch11_model": "late",
}


def write(folder: Path) -> None:
    """Write all pages below docs/. A page that would not change keeps its time."""
    for name, text in pages():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def pages() -> Iterator[tuple[str, str]]:
    """Return the path of each page below docs/, and its text."""
    for name, kernel in CHAPTERS.items():
        yield f"learn/{name}.md", _chapter(name, kernel)
    for name in INSTRUCTIONS:
        yield f"reference/instructions/{name}.md", _instruction(name)
    for name, page in explain.pages().items():
        yield f"reference/errors/{name}.md", _error(page)
    yield "reference/errors.md", _index("Errors and findings", ERRORS, "errors", explain.pages())
    yield (
        "reference/instruction_pages.md",
        _index("Each instruction", EACH, "instructions", INSTRUCTIONS),
    )
    yield "reference/commands.md", _commands()
    yield "reference/machines.md", _machines()


ERRORS = "One page for each code, with an example that is refused and an example that runs."
EACH = "The equation, the operands, the rules with calls that break them, and the cost."


def _index(title: str, text: str, folder: str, names: object) -> str:
    entries = "\n".join(f"{folder}/{name}" for name in sorted(names))  # type: ignore[call-overload]
    return f"# {title}\n\n{text}\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"


CHAPTER = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# {text}

## The kernel

```{{literalinclude}} ../../kernels/{name}.py
:language: python
:start-at: import
```

## A run

```{{code-cell}}
import neuroncore
import numpy as np

neuroncore.activate()
from neuroncore.kernels import {name} as chapter

run = neuroncore.run(chapter.{kernel}, *chapter.inputs({inputs}))
assert run.compare(chapter.reference)
run
```

Click an instruction in the timeline: the page shows what it waited for, and which bytes it read and
wrote. `run.view()` without `None` also shows the values of tiles.

```{{code-cell}}
run.view(None)
```

{more}## Exercises

{exercises}"""
MORE = {  # what a chapter has in addition
    "ch11_model": """\
## On eight ranks

```{code-cell}
given = [chapter.rank_inputs(rank) for rank in range(chapter.RANKS)]
late = neuroncore.run(chapter.late, per_rank=given)
for rank, one in enumerate(late.ranks):
    assert one.compare(lambda *given: chapter.rank_reference(*given, rank=rank))
print(late.why(3))
```

In `late`, no engine has work while a collective runs. `early` starts a collective for each half of
the tokens, so the engines can work on the other half:

```{code-cell}
early = neuroncore.run(chapter.early, per_rank=given)
print(early.why(3))
```

```{code-cell}
print(late.diff(early))
```

"""
}


def _chapter(name: str, kernel: str) -> str:
    """The page of a chapter: the text of its file, the kernel, a run, and exercises."""
    text = ast.get_docstring(ast.parse((DOCS.parent / "kernels" / f"{name}.py").read_text()))
    title, rest = text[: text.index("\n")], text[text.index("\n") :]
    return CHAPTER.format(
        text=title.rstrip(".") + rest,
        name=name,
        kernel=kernel,
        inputs="" if name == "ch11_model" else "np.random.default_rng(0)",
        more=MORE.get(name, ""),
        exercises=_exercises(name[:4]),
    )


def lectures() -> Iterator[tuple[Path, str]]:
    """Return the file of each lecture, and its text with the current exercises."""
    for file in sorted((DOCS / "lectures").glob("l*_*.md")):
        text, heading, _ = file.read_text().partition(HEADING)
        yield file, text + heading + _exercises(file.name.partition("_")[0])


def _exercises(home: str) -> str:
    """The exercises of a chapter or lecture, and the commands that check them."""
    own = [one for name, one in exercises().items() if name.startswith(f"{home}.")]
    texts = [f"{number}. {_exercise(one)}\n" for number, one in enumerate(own, 1)]
    return "".join(texts)


def _exercise(one: Exercise) -> str:
    unit = f" (in {one.unit})" if one.unit else ""
    check = f" Check: `neuroncore exercises {one.name} NUMBER`{unit}." if one.value else ""
    return one.text + check


def _instruction(name: str) -> str:
    described, _, _ = printed("isa", name).partition("\nmeaning ")
    lines = [line for line in described.splitlines() if not line.startswith("defined ")]
    text = "\n".join(lines).rstrip()
    source = inspect.getsource(meaning(name))
    return (
        f"# {name}\n\n```text\n{text}\n```\n\n## The meaning in numpy\n\n"
        f"`i` has the arguments by name.\n\n```python\n{source}```\n"
    )


def _error(page: explain.ExplainPage) -> str:
    code = "" if page.code == page.name else f"\n\nThe code of the error is {page.code}."
    text = f"# {page.name}{code}\n\n"
    if page.severity:
        text += f"```text\n{page.text}\n```\n"
    else:
        text += f"{page.text}\n"
    if page.diff:
        text += "\nLines with `-` are refused, lines with `+` run:\n\n"
        header = indent(page.header, " ")
        text += f"```diff\n{header}\n\n{page.diff}\n```\n"
    return text


def _commands() -> str:
    parts = [f"## {name}\n\n```text\n{printed(name, '--help')}```\n" for name in cli.COMMANDS]
    return "# Commands\n\n" + "\n".join(parts)


def _machines() -> str:
    parts = [f"## {name}\n\n```text\n{printed('machines', name)}```\n" for name in machine.names()]
    return (
        "# Machines\n\nEvery number has a source, and a grade: documented, measured or assumed.\n\n"
        + "\n".join(parts)
    )


def printed(*words: str) -> str:
    """Return what a command prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        cli.main(words)
    return output.getvalue()


if __name__ == "__main__":
    for page, text in lectures():
        page.write_text(text)
