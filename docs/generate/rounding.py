"""Write docs/rounding.md and its plots from the code and the output of kernels/ch10_rounding.py.

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
# Rounding: sums that stagnate, and sums that do not

This page is a worked example in NKI kernels. It shows how bfloat16 affects a long sum and training,
and how stochastic rounding helps. All output and plots come from the tenth chapter of the kernels
([source](../kernels/ch10_rounding.py)). `docs/generate/rounding.py` writes this page; a test runs
the program and fails if a figure differs.

```sh
pip install 'neuroncore[digits,plots]'
neuroncore run kernels/ch10_rounding.py
```

## One number

bfloat16 has eight significant bits. The next number after 1 is 1 + 2^-7, and every number between 1
and 1 + 2^-7 is rounded to one of the two. For example, take the number a fifth of the way from 1 to
1 + 2^-7. With rounding to nearest, this number always becomes 1, and the fifth is lost.

Stochastic rounding makes a random choice. If v is the number, and L <= v < H are neighbors in the
format, v becomes H with the probability

    f = (v - L) / (H - L),

and becomes L with the probability 1 - f. The mean of many results is v. The variance of the results
is f (1 - f) (H - L)^2. A number that the format represents exactly never changes.

Engines compute in float32, and round when they write a result. So a copy to a tile in a narrower
format rounds a number:

{narrowed}

Run it on many copies of one number, a fifth of the way from 1 to its neighbor:

{prints 0}

The last line of the output is from `neuroncore.numerics.stochastic_test`, which makes seven tests.
One test counts how often the number was rounded up. The other six look for correlations between
elements at distances of 1, 2, 3, 4, 128 and 512. By chance, the result of a test is more than 4.5
standard deviations off once in 150,000 times.

## A long sum

Let s be a bfloat16 number to which x = 1/8 is added repeatedly.

{running_sums}

From 2^k to 2^(k+1), bfloat16 numbers are 2^(k-7) apart. With rounding to nearest, s + x equals s as
soon as x is less than half of this distance. If x is exactly half of the distance, s + x is a tie,
which rounds to the even neighbor. A power of two is even. The sum therefore stops at the first
power of two, 2^k, with

    2^(k-8) >= x.

For x = 1/8, the sum stops at 32.

With stochastic rounding, the mean result of every addition is exact, so the expected sum is always
right. The price is a spread of the sums. If bfloat16 numbers are u apart (u > x), an addition
increases the sum by u with probability x/u, and otherwise leaves it unchanged. Each such addition
adds x (u - x) to the variance of the sum. The program computes the exact probability of every
possible sum, and compares the results with these probabilities:

{prints 1}

![Running sums and where they end](rounding_sums.svg)

On the left: with rounding to nearest, the sum is right up to 32, and then stagnates for 3840
additions. With stochastic rounding, a sum increases rarely, but in large steps. On the right: the
final sums of all lanes and seeds, and the distribution that the program computed.

The vendor's page on rounding modes has a similar sum, 1024 + 2048 times 0.5 in float16. From 1024
on, float16 numbers are 1 apart, so every addition is a tie. According to the vendor's page, the sum
is 1024 with rounding to nearest, and 2056 with stochastic rounding. The sum 2056 is a single sample
of a random result:

{prints 2}

## Training

Gradient descent subtracts a small update from a large weight thousands of times:
w -= rate * gradient. Rounding to nearest loses the update if |rate * gradient| is below half of the
distance between neighboring numbers at w. In bfloat16, every update below |w| / 512 is lost.

In this example, one kernel trains a linear classifier of handwritten digits, 8 x 8 pixels, with 64
x 10 weights. The weights have the format of the argument `w` and everything else is float32, so
only the last instruction of a step rounds:

{trained}

All three runs use the same initial weights, the same images in the same order, and a rate of 0.01:

{prints 3}

![Loss and accuracy by epoch](rounding_training.svg)

With rounding to nearest, training almost stops, because most updates are lost. Only small weights
still change, because the distance from a small number to the next bfloat16 number is small too.

With stochastic rounding, the curve matches the curve of float32, with half the memory for weights.
Only some weights change in an epoch, but each of these weights changes by at least one step of the
format. On average, the change equals the update.

The rate and the initial weights (normal, with a standard deviation of 0.3) were chosen to make the
effect clear. With five times the rate and a fifth of the epochs, rounding to nearest costs only a
few points of accuracy. But training usually has to lower its rate to converge.

## When to use which

* If you can keep a sum in float32, do so. PSUM is float32. The state of `tensor_tensor_scan` is
  also float32, whatever format the instruction writes. In float32, the sum of 4096 terms above is
  exact, while the sums with stochastic rounding scatter by 5 %.
* Stochastic rounding is for numbers that must be *stored* in a narrow format and are updated often:
  weights, optimizer states, running averages.
* `NEURON_RT_STOCHASTIC_ROUNDING_EN=1` turns stochastic rounding on for a whole program, for every
  cast from float32 to a narrower float. `NEURON_RT_STOCHASTIC_ROUNDING_SEED` repeats a run; the
  default seed is 0.
* The number of random bits on the device, and their generator, are not published. The means and
  spreads on this page also hold for the device, but the bits do not. In neuroncore, each element of
  each instruction has a separate random word ([numerics](numerics.md), `stochastic_bits`). Two
  launches with the same seed use the same words. So if several launches continue one computation,
  give each launch a different seed, or use a single launch, as on this page.

Further reading: S. Gupta et al., "Deep learning with limited numerical precision", ICML 2015;
M. Croci et al., "Stochastic rounding: implementation, error analysis and applications", Royal
Society Open Science 9, 2022.
"""


def run(folder: Path) -> str:
    """Run the chapter with its plots in a folder, and return its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "NKI_"))}
    return subprocess.run(
        [sys.executable, "-W", "error", str(CHAPTER), "--plots", str(folder)],
        env={**environment, "PYTHONPATH": str(ALIAS)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout


def kernels() -> dict[str, str]:
    """Return the source of every function of the chapter with a decorator, by name."""
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
