"""10. Rounding: a sum that stagnates, and one that does not.

bfloat16 keeps eight significant bits: from 32 to 64 its numbers are 1/4 apart. A loop that adds 1/8
to a bfloat16 therefore reaches 32 and stays there: 32 + 1/8 is half way to the next number, and
a tie rounds to the even neighbor, 32. Rounding to nearest loses the same way every time.

Stochastic rounding rounds up with the right probability. For neighbors L <= v < H in the format,

    v becomes H with probability (v - L) / (H - L), otherwise L.    The mean result is v.

Errors still occur, but they cancel: sums scatter about the right sum, and training with weights in
bfloat16 continues where it would have stopped. There are three experiments: one number rounded many
times, a long sum, and a classifier of handwritten digits whose weights are bfloat16.

NEURON_RT_STOCHASTIC_ROUNDING_EN=1 turns stochastic rounding on, on the device and in this emulator;
NEURON_RT_STOCHASTIC_ROUNDING_SEED=7 sets its seed. `neuroncore run --stochastic-rounding SEED` does
both. This program uses both ways of rounding.

The digits need scikit-learn, the plots matplotlib: pip install 'neuroncore[digits,plots]'.

    neuroncore run kernels/ch10_rounding.py
    neuroncore run kernels/ch10_rounding.py::running_sums
    neuroncore run kernels/ch10_rounding.py::running_sums --stochastic-rounding 7

The last command reports a difference, because the reference rounds to nearest: the kernel's result
is about 512, and the reference's is 32.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from neuroncore.kernels.ch09_digits import digits

from neuroncore import Options, numerics
from neuroncore.frontend.settings import current_settings, settings

LANES = 128  # partitions; each computes a sum
SEEDS = range(4)
STEP, COUNT = 0.125, 4096
BATCH, PIXELS, CLASSES = 128, 64, 10
RATE, EPOCHS = 0.01, 300


def rounding(seed):
    """Return a context in which kernels round stochastically, or to nearest if seed is None."""
    now = current_settings()
    chosen = replace(
        now.options or Options(), stochastic=seed is not None, stochastic_seed=seed or 0
    )
    return settings(now.target, chosen, now.observer)


# --- one number -----------------------------------------------------------------------------------


@nki.jit
def narrowed(x):
    """Return x [rows, columns], rounded to bfloat16; rows <= 128."""
    wide = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=wide, src=x)
    tile = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=wide)
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def one_number():
    """Round a number 2^18 times at random, print statistics and return them. The number is a fifth
    of the way from 1 to the next bfloat16."""
    value = 1 + numerics.info("bfloat16").eps / 5
    with rounding(seed=0):
        results = narrowed(np.full((LANES, 2048), value, np.float32))
    found = numerics.stochastic_test("bfloat16", value, results=results)
    print(f"{value} is {found.below} or {found.above}")
    print(f"up           {found.ups / found.draws:.2%} of {found.draws} times; 20.00% expected")
    print(f"mean         {np.float64(results).mean():.7f}")
    print(f"worst test   {found.worst:.1f} standard deviations from chance")
    return found


# --- a long sum -----------------------------------------------------------------------------------


@nki.jit
def running_sums(start, x, count):
    """start, start + x, start + x + x, ...: [rows, count + 1], each rounded to the format of start.

    start is [rows, 1]: every row is a separate sum, on a separate lane.
    """
    sums = nl.ndarray((start.shape[0], count + 1), start.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=sums[:, 0:1], src=start)
    for i in range(count):
        before, after = sums[:, i : i + 1], sums[:, i + 1 : i + 2]
        nisa.tensor_scalar(dst=after, data=before, op0=nl.add, operand0=x)
    out = nl.ndarray(sums.shape, sums.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=sums)
    return out


def inputs(rng):
    return np.zeros((LANES, 1), ml_dtypes.bfloat16), STEP, COUNT


def reference(start, x, count):
    """The sums of `running_sums`, rounded to nearest."""
    sums = [start]
    for _ in range(count):
        sums.append((sums[-1] + np.float32(x)).astype(start.dtype))
    return np.concatenate(sums, axis=1)


def sums(dtype, start, x, count, seed):
    """Running sums of all lanes in float64 [128, count + 1]; see `rounding` for the seed."""
    with rounding(seed):
        return np.float64(running_sums(np.full((LANES, 1), start, dtype), x, count))


def standstill(dtype, x):
    """The number at which a sum of x > 0 stagnates: the first power of two 2^k where x is at most
    half of the distance to the next number, 2^k eps. Below this power, x is more than half of the
    distance, but at most all of it, so each addition takes the sum to the next number."""
    return 2.0 ** np.ceil(np.log2(2 * x / numerics.info(dtype).eps))


def distribution(dtype, start, x, count):
    """The possible values of a stochastically rounded sum, and their exact probabilities.

    Each addition leads from a number to one of two neighbors; the probabilities of all paths to a
    number add up.
    """
    numbers = np.unique(numerics.encodings(dtype)["value"])  # in order, and NaN last
    numbers = numbers[(numbers >= start) & (numbers <= start + 4 * count * x)]
    below = np.searchsorted(numbers, numbers + x, side="right") - 1
    below = np.minimum(below, len(numbers) - 2)  # a sum never reaches the last numbers
    up = (numbers + x - numbers[below]) / (numbers[below + 1] - numbers[below])
    probability = (numbers == start).astype(np.float64)
    for _ in range(count):
        now = np.flatnonzero(probability)
        stays, goes = probability[now] * (1 - up[now]), probability[now] * up[now]
        probability = np.bincount(below[now], stays, len(numbers))
        probability += np.bincount(below[now] + 1, goes, len(numbers))
    return numbers, probability


def moments(numbers, probability):
    """Mean and standard deviation."""
    mean = numbers @ probability
    return mean, ((numbers - mean) ** 2 @ probability) ** 0.5


def long_sum(dtype=ml_dtypes.bfloat16, start=0.0, x=STEP, count=COUNT):
    """Running sums, rounded to nearest [128, count + 1] and at random [seeds * 128, count + 1]."""
    nearest = sums(dtype, start, x, count, seed=None)
    random = np.concatenate([sums(dtype, start, x, count, seed) for seed in SEEDS])
    last, stuck = random[:, -1], nearest[0, -1]
    arrived = np.argmax(nearest[0] == stuck)
    mean, spread = moments(*distribution(dtype, start, x, count))
    print(f"{start:g} + {count} times {x:g} in {np.dtype(dtype).name}: {start + count * x:g}")
    print(f"to nearest   {stuck:g}, from addition {arrived} on; {standstill(dtype, x):g} predicted")
    error, many = spread / len(last) ** 0.5, len(last)
    print(f"stochastic   mean {last.mean():.2f} of {many} sums; {mean:.2f} +- {error:.2f} expected")
    print(f"             spread {last.std():.2f}; {spread:.2f} expected")
    return nearest, random


# --- training -------------------------------------------------------------------------------------


@nki.jit
def trained(x, x_t, wanted, w, rate, epochs):
    """The weights after each epoch of gradient descent [epochs, pixels, classes].

    x [batches, 128, pixels] and x_t [batches, pixels, 128] are images, wanted [batches, 128,
    classes] is 1 for the right class. The initial weights w [pixels, classes] have the format in
    which weights are stored; everything else is float32.
    """
    history = nl.ndarray((epochs, *w.shape), w.dtype, buffer=nl.shared_hbm)
    batches = []
    for i in range(x.shape[0]):
        batches.append([load(x[i]), load(x_t[i]), load(wanted[i])])
    weights = load(w)
    exact = nl.ndarray(w.shape, nl.float32, buffer=nl.sbuf)
    scores = nl.ndarray((BATCH, CLASSES), nl.float32, buffer=nl.psum)
    powers = nl.ndarray((BATCH, CLASSES), nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((BATCH, 1), nl.float32, buffer=nl.sbuf)
    error = nl.ndarray((BATCH, CLASSES), nl.float32, buffer=nl.sbuf)
    gradient = nl.ndarray(w.shape, nl.float32, buffer=nl.psum)

    for epoch in range(epochs):
        for images, images_t, right in batches:
            # Probabilities: softmax(images @ weights). Scores are small: no maximum is needed.
            nisa.tensor_copy(dst=exact, src=weights)
            nisa.nc_matmul(dst=scores, stationary=images_t, moving=exact, accumulate=False)
            nisa.activation(
                dst=powers,
                op=nl.exp,
                data=scores,
                reduce_op=nl.add,
                reduce_res=total,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
            nisa.reciprocal(dst=total, data=total)
            # The gradient of the cross entropy is images.T @ (probabilities - right) / BATCH.
            nisa.scalar_tensor_tensor(
                dst=error,
                data=powers,
                op0=nl.multiply,
                operand0=total,
                op1=nl.subtract,
                operand1=right,
            )
            nisa.nc_matmul(dst=gradient, stationary=images, moving=error, accumulate=False)
            # weights -= rate * gradient, computed in float32: only this instruction rounds.
            nisa.scalar_tensor_tensor(
                dst=weights,
                data=gradient,
                op0=nl.multiply,
                operand0=-rate / BATCH,
                op1=nl.add,
                operand1=weights,
            )
        nisa.dma_copy(dst=history[epoch], src=weights)
    return history


def load(source):
    tile = nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def training_inputs(rng, dtype=np.float32, epochs=EPOCHS):
    """Arguments of `trained`: digits in full batches, random weights exact in bfloat16."""
    images, _, labels, _ = digits()
    count = len(images) // BATCH * BATCH
    x = images[:count].reshape(-1, BATCH, PIXELS)
    wanted = np.eye(CLASSES, dtype=np.float32)[labels[:count]].reshape(-1, BATCH, CLASSES)
    w = (0.3 * rng.standard_normal((PIXELS, CLASSES))).astype(ml_dtypes.bfloat16).astype(dtype)
    return x, np.ascontiguousarray(x.transpose(0, 2, 1)), wanted, w, RATE, epochs


def training_reference(x, x_t, wanted, w, rate, epochs):
    history = []
    for _ in range(epochs):
        for images, right in zip(x, wanted):
            powers = np.exp(images @ w.astype(np.float32))
            error = powers / powers.sum(axis=1, keepdims=True) - right
            w = (w.astype(np.float32) - rate / BATCH * images.T @ error).astype(w.dtype)
        history.append(w)
    return np.stack(history)


def judged(history):
    """Loss and accuracy [epochs] on the images that training did not see."""
    _, images, _, labels = digits()
    scores = np.float64(images) @ np.float64(history)
    right = np.take_along_axis(scores, labels[None, :, None], axis=2)[..., 0]
    loss = np.log(np.exp(scores).sum(axis=2)) - right
    return loss.mean(axis=1), np.mean(scores.argmax(axis=2) == labels, axis=1)


def training(epochs=EPOCHS):
    """Train in three ways. Return a dict with an entry for each way: the weights after each epoch
    [epochs, pixels, classes], and the loss and the accuracy with these weights [epochs]."""
    runs = {}
    for name, dtype, seed in (
        ("float32", np.float32, None),
        ("bfloat16, to nearest", ml_dtypes.bfloat16, None),
        ("bfloat16, stochastic", ml_dtypes.bfloat16, 0),
    ):
        with rounding(seed):
            history = trained(*training_inputs(np.random.default_rng(0), dtype, epochs))
        history = np.float64(history)
        runs[name] = history, *judged(history)
    used = digits()[0].any(axis=0)  # some pixels are never lit: their weights have no gradient
    print(f"after {epochs} epochs        loss   accuracy   weights that the last epoch moved")
    for name, (history, loss, accuracy) in runs.items():
        moved = np.mean((history[-1] != history[-2])[used])
        print(f"{name:22}{loss[-1]:7.3f}{accuracy[-1]:11.1%}{moved:10.1%}")
    return runs


# --- plots ----------------------------------------------------------------------------------------

GREY, RED, BLUE = "#555555", "#c23b22", "#1f6fb2"


def figure():
    """matplotlib's figure and a pair of axes."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SystemExit("the plots need matplotlib: pip install matplotlib") from None

    drawing = Figure(figsize=(9, 3.6), layout="constrained")
    axes = drawing.subplots(1, 2)
    for part in axes:
        part.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def save(drawing, path):
    """Save an SVG with reproducible bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "neuroncore", "svg.fonttype": "none"}):
        drawing.savefig(path, metadata={"Date": None})


def plot_sums(nearest, random, path):
    """Running sums on the left; their final values and expected distribution on the right."""
    drawing, (left, right) = figure()
    every = slice(None, None, 32)
    additions = np.arange(COUNT + 1)[every]
    for lane in random[:LANES:8]:
        left.plot(additions, lane[every], color=BLUE, alpha=0.35, linewidth=0.7)
    left.plot([], [], color=BLUE, label="stochastic, 16 lanes")
    left.plot(additions, additions * STEP, "--", color=GREY, label="exact")
    left.plot(additions, nearest[0, every], color=RED, linewidth=2, label="to nearest")
    left.set(xlabel="additions of 1/8", ylabel="sum in bfloat16")
    left.legend(frameon=False)

    numbers, probability = distribution(ml_dtypes.bfloat16, 0.0, STEP, COUNT)
    edges = np.arange(416, 625, 16)
    right.hist(random[:, -1], edges, color=BLUE, alpha=0.5, label=f"{len(random)} sums")
    expected, _ = np.histogram(numbers, edges, weights=probability * len(random))
    right.stairs(expected, edges, color=GREY, linewidth=1.5, label="expected")
    right.axvline(COUNT * STEP, color=GREY, linestyle="--", label="exact")
    right.set(xlabel=f"sum after {COUNT} additions", ylabel="how many")
    right.legend(frameon=False)
    save(drawing, path)


def plot_training(runs, path):
    """Loss on the left, accuracy on the right, by epoch."""
    drawing, (left, right) = figure()
    styles = (
        {"color": GREY, "linewidth": 4, "alpha": 0.5},
        {"color": RED, "linewidth": 2},
        {"color": BLUE, "linewidth": 1.2},
    )
    for (name, (_, loss, accuracy)), style in zip(runs.items(), styles):
        epochs = np.arange(1, len(loss) + 1)
        left.plot(epochs, loss, label=name, **style)
        right.plot(epochs, 100 * accuracy, **style)
    left.set(xlabel="epochs", ylabel="loss", ylim=(0, None))
    right.set(xlabel="epochs", ylabel="accuracy, %", ylim=(0, 100))
    left.legend(frameon=False, loc="lower left")
    save(drawing, path)


def main(folder=None):
    """Print all results, and draw the plots if there is a folder for them."""
    if folder:
        figure()  # reports a missing matplotlib before the long part
    one_number()
    print()
    found = long_sum()
    print()
    long_sum(np.float16, 1024.0, 0.5, 2048)
    print()
    runs = training()
    if folder:
        plot_sums(*found, folder / "rounding_sums.svg")
        plot_training(runs, folder / "rounding_training.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to put SVG files")
    main(parser.parse_args().plots)
