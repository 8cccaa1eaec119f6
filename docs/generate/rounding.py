"""Writes docs/rounding.md and its plots: what kernels/ch10_rounding.py does, shows and prints.

python docs/generate/rounding.py
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from neuroncore.frontend import alias

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "rounding.md"
CHAPTER = DOCS.parent / "kernels/ch10_rounding.py"
ALIAS = alias.PATH

TEXT = """\
# Rounding: sums that stand still, and sums that do not

A worked example, in NKI kernels: what bfloat16 does to a long sum and to training, and how
stochastic rounding cures it. What is shown here is what a program prints and draws, the tenth
chapter of the kernels ([source](../kernels/ch10_rounding.py)). This page is written by
`docs/generate/rounding.py`; a test runs the program and fails when a figure differs.

```sh
pip install 'neuroncore[digits,plots]'
neuroncore run kernels/ch10_rounding.py
```

## One number

bfloat16 has eight significant bits. After 1 comes 1 + 2^-7; whatever lies between becomes one of
the two. To nearest, a fifth of the way is always 1, and the fifth is lost. Stochastic rounding
draws: with L <= v < H neighbours in the format,

    P(v becomes H) = (v - L) / (H - L),   otherwise it becomes L.

So the mean of the results is v, and their variance f (1 - f) (H - L)^2 where f is that probability.
Nothing that the format holds ever moves.

Engines compute in float32 and round what they write. A copy to a tile of another format is enough:

{narrowed}

Run on many copies of one number, a fifth of the way from 1 to its neighbour:

{prints 0}

`neuroncore.numerics.stochastic_test` counts how often the number went up, and looks for
correlations between elements that are 1, 2, 3, 4, 128 and 512 apart; what it calls worst would be
beyond 4.5 by chance once in 150,000 times.

## A long sum

Let s be a bfloat16 to which x = 1/8 is added again and again.

{running_sums}

From 2^k to 2^(k+1), bfloat16 numbers are 2^(k-7) apart. To nearest, s + x is s again as soon as x
is half of that or less; half itself is a tie, which goes to the even neighbour, and a power of two
is even. So the sum stops at the first

    2^k with 2^(k-8) >= x:    x = 1/8 stops at 32.

At random, every addition keeps its mean: the expected sum is right, always. What it costs is
spread. Where numbers are u apart (u > x), an addition goes up by u with probability x/u, which adds
x (u - x) to the variance. The program follows the exact probabilities of every number that the sum
may be, and holds the results against them:

{prints 1}

![Running sums and where they end](rounding_sums.svg)

Left: to nearest the sum is right up to 32, and then does not move for 3840 additions. At random, a
lane goes up rarely, but in large steps. Right: where the sums of all lanes and seeds end, beside
the distribution that follows from the equation.

The vendor's page on rounding modes has another such sum, 1024 + 2048 times 0.5 in float16, whose
numbers are 1 apart from 1024 on, so that every addition is a tie. It says that rounding to nearest
gives 1024 and stochastic rounding 2056. The latter is one draw:

{prints 2}

## Training

Gradient descent subtracts a small number from a large one, w -= rate * gradient, thousands of
times. If |rate * gradient| is below half a step at w, and it is if below |w| / 512, rounding to
nearest takes it back. Here a linear classifier of 8 x 8 handwritten digits, 64 x 10 weights, is
trained by one kernel. Weights are stored in the format of the argument `w`; all else is float32, so
that the last instruction of a step is the only one that rounds:

{trained}

The same weights to begin with, the same images in the same order, a rate of 0.01:

{prints 3}

![Loss and accuracy by epoch](rounding_training.svg)

To nearest, training all but stops, because most updates are lost: the weights that still move are
small ones, whose steps are small too. At random, only a part of the weights moves in an epoch too,
but those that move do so by a whole step; on average that is the update, and the curve is that of
float32, with half the memory for weights.

The rate and the initial weights (normal, of spread 0.3) were chosen to make this plain. With five
times the rate and a fifth of the epochs, rounding to nearest costs only a few points of accuracy;
but rates are lowered to converge.

## When to use which

* If a sum can be kept in float32, keep it there: PSUM is float32, and so is the state of
  `tensor_tensor_scan` whatever it writes. A sum of 4096 terms then is exact here, while the
  stochastic one scatters by 5 %.
* Stochastic rounding is for numbers that have to *live* in a narrow format and are updated often:
  weights, optimizer states, running averages.
* It is switched on for a whole program, by `NEURON_RT_STOCHASTIC_ROUNDING_EN=1`, and holds for
  every cast from float32 to a narrower float. `NEURON_RT_STOCHASTIC_ROUNDING_SEED` repeats a run;
  without it the seed is 0.
* How many random bits the device takes, and from which generator, is not published: means and
  spreads carry over, bits do not. Here each element of each instruction has a random word of its
  own ([numerics](numerics.md), `stochastic_bits`), and a launch repeats its words: launches that
  continue each other need seeds of their own, or one launch, as above.

Further reading: S. Gupta et al., "Deep learning with limited numerical precision", ICML 2015;
M. Croci et al., "Stochastic rounding: implementation, error analysis and applications", Royal
Society Open Science 9, 2022.
"""


def run(folder: Path) -> str:
    """Run the chapter, its plots in a folder; what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "NKI_"))}
    return subprocess.run(
        [sys.executable, "-W", "error", str(CHAPTER), "--plots", str(folder)],
        env={**environment, "PYTHONPATH": str(ALIAS)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout


def kernels() -> dict[str, str]:
    """The source of every function of the chapter with a decorator, by name."""
    source = CHAPTER.read_text()
    lines = source.splitlines()
    return {
        node.name: "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno])
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }


def page(printed: str) -> str:
    text = TEXT
    for name, source in kernels().items():
        text = text.replace(f"{{{name}}}", f"```python\n{source}\n```")
    for number, part in enumerate(printed.strip().split("\n\n")):
        text = text.replace(f"{{prints {number}}}", f"```text\n{part}\n```")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(run(DOCS)))
