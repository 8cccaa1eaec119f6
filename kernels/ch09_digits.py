"""9. The cost of narrow formats: handwritten digits in float32, bfloat16 and float8.

A small network (64 pixels, 128 hidden units, 10 classes) is trained here on the host, in numpy, on
the 8 x 8 handwritten digits that come with scikit-learn. Then one kernel classifies the images that
training did not see, three times: with operands in float32, in bfloat16 and in float8 (e4m3:
four exponent bits, three mantissa bits, at most 240). The kernel is the same; only the dtype of
its arguments differs. Sums are always float32.

float8 needs a scale for each tensor: its smallest normal number is 1/64, and trained weights are
smaller than one. So each tensor is multiplied by a power of two that brings its largest entry near
240. The kernel divides by this power in `activation`, which scales its input anyway.

Needs scikit-learn: pip install 'neuroncore[digits]'.

    neuroncore run kernels/ch09_digits.py
"""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

PIXELS, HIDDEN, CLASSES = 64, 128, 10
FORMATS = (np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3)


@nki.jit
def classify(x_t, w1, b1, w2, b2, scale1, scale2):
    """Scores [classes, images] of images x_t [pixels, images], at most 512 of them.

    w1 [pixels, hidden] and w2 [hidden, classes] are scale1 and scale2 times the weights; x_t, w1
    and w2 have the dtype in which the products are computed. b1 [hidden, 1] and b2 [classes, 1]
    are float32.
    """
    images = x_t.shape[1]
    scores = nl.ndarray((CLASSES, images), nl.float32, buffer=nl.shared_hbm)

    sums = nl.ndarray((HIDDEN, images), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=load(w1), moving=load(x_t))
    hidden = nl.ndarray((HIDDEN, images), x_t.dtype, buffer=nl.sbuf)
    nisa.activation(dst=hidden, op=nl.relu, data=sums, scale=1 / scale1, bias=load(b1))

    sums = nl.ndarray((CLASSES, images), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=load(w2), moving=hidden)
    final = nl.ndarray((CLASSES, images), nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=final, op=nl.copy, data=sums, scale=1 / scale2)
    nisa.tensor_scalar(dst=final, data=final, op0=nl.add, operand0=load(b2))
    nisa.dma_copy(dst=scores, src=final)
    return scores


def load(source):
    tile = nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def digits():
    """Return images [n, 64] from 0 to 1 for training and for testing, then labels [n] for both."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ModuleNotFoundError:
        raise SystemExit("the digits come with scikit-learn: pip install scikit-learn") from None

    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    return train_test_split(images, data.target, test_size=360, random_state=0)


def train(x, labels, rng, epochs=60, batch=32, rate=0.1):
    """Weights and biases by plain stochastic gradient descent on the cross entropy."""
    w1 = (rng.standard_normal((PIXELS, HIDDEN)) * (2 / PIXELS) ** 0.5).astype(np.float32)
    w2 = (rng.standard_normal((HIDDEN, CLASSES)) * (2 / HIDDEN) ** 0.5).astype(np.float32)
    b1, b2 = np.zeros(HIDDEN, np.float32), np.zeros(CLASSES, np.float32)
    wanted = np.eye(CLASSES, dtype=np.float32)[labels]
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for some in np.array_split(order, len(x) // batch):
            hidden = np.maximum(x[some] @ w1 + b1, 0)
            powers = np.exp(hidden @ w2 + b2)
            error = (powers / powers.sum(axis=1, keepdims=True) - wanted[some]) / len(some)
            back = (error @ w2.T) * (hidden > 0)
            w2 -= rate * hidden.T @ error
            b2 -= rate * error.sum(axis=0)
            w1 -= rate * x[some].T @ back
            b1 -= rate * back.sum(axis=0)
    return w1, b1, w2, b2


def arguments(x, parameters, dtype):
    """The kernel's arguments in a format. For a format of one byte, the weights are scaled."""
    w1, b1, w2, b2 = parameters

    def scale(weights):
        narrow = np.dtype(dtype).itemsize == 1
        return float(2.0 ** np.floor(np.log2(240 / np.abs(weights).max()))) if narrow else 1.0

    scale1, scale2 = scale(w1), scale(w2)
    return (
        np.ascontiguousarray(x.T).astype(dtype),
        (w1 * scale1).astype(dtype),
        b1.reshape(-1, 1),
        (w2 * scale2).astype(dtype),
        b2.reshape(-1, 1),
        scale1,
        scale2,
    )


def inputs(rng):
    x_train, x_test, labels, _ = digits()
    return arguments(x_test, train(x_train, labels, rng), np.float32)


def reference(x_t, w1, b1, w2, b2, scale1, scale2):
    hidden = np.maximum(w1.T @ x_t / np.float32(scale1) + b1, 0)
    return w2.T @ hidden / np.float32(scale2) + b2


if __name__ == "__main__":
    x_train, x_test, train_labels, test_labels = digits()
    parameters = train(x_train, train_labels, np.random.default_rng(0))
    for dtype in FORMATS:
        scores = classify(*arguments(x_test, parameters, dtype))
        right = np.mean(scores.argmax(axis=0) == test_labels)
        print(f"accuracy in {np.dtype(dtype).name}: {right:.1%} of {len(test_labels)} images")
