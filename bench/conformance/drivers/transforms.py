"""Drivers of Fourier transforms, and of circuits of quantum gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from drivers.driver import ROUGH, Checkout, Result, drives, normal

FOURIER = "jimburtoft/NeuronStuff"
SIZES = ("128x128", "100x256", "128x512", "64x2048", "100x4096")


@drives(FOURIER, target="trn1", each=SIZES)
def fourier(checkout: Checkout, size: str) -> Iterator[Result]:
    import torch

    rows = normal(*map(int, size.split("x")))
    module = checkout.module("NKI/nki_fft1d/fft1d_nki.py")
    got = np.asarray(module.FFT1D_Flexible()(torch.from_numpy(rows)))
    want = np.fft.fft(rows, axis=1)
    yield Result("real", got.real, want.real, 3e-5)  # the author states "< 0.003 %"
    yield Result("imaginary", got.imag, want.imag, 3e-5)


@drives(FOURIER, each=SIZES)
def fourier_on_trn2(checkout: Checkout, size: str) -> Iterator[Result]:
    yield from fourier(checkout, size)


@drives("RichardYin21/Trainium-Quantum-Simulator", target="trn1")
def gates(checkout: Checkout) -> Iterator[Result]:
    gate, state = normal(2, 64, 64), normal(2, 64, 2048, seed=1)
    got = checkout.module("nki_gate_apply.py").nki_gate_apply(gate, state)
    want = (gate[0] + 1j * gate[1]) @ (state[0] + 1j * state[1])
    yield Result("state", got, np.stack([want.real, want.imag]))


def unitary(draw: np.random.Generator, size: int) -> Any:
    square = draw.standard_normal((size, size)) + 1j * draw.standard_normal((size, size))
    return np.linalg.qr(square)[0]


@drives("biquando/trainium-quantum-sim", target="trn1")
def circuit(checkout: Checkout) -> Iterator[Result]:
    """Apply four gates, each to some of the qubits: a product with the state after a permutation of
    its axes."""
    module = checkout.module("experiments/09_simulator.py")
    draw, given, n = np.random.default_rng(0), [], module.n
    want = np.eye(1, 2**n, dtype=complex)[0]
    for _ in range(4):
        gate = unitary(draw, module.unitary_size)
        qubits = draw.choice(n, size=module.gate_size, replace=False)
        given.append((np.float32(gate.real), np.float32(gate.imag), module.get_perm(n, qubits)))
        acted = [n - 1 - qubit for qubit in qubits[::-1]]
        axes = acted + [axis for axis in range(n) if axis not in acted]
        state = gate @ want.reshape([2] * n).transpose(axes).reshape(len(gate), -1)
        want = state.reshape([2] * n).transpose(np.argsort(axes)).reshape(-1)
    real, imaginary = np.asarray(module.run_circuit(given))
    yield Result("real", real.ravel(), want.real, ROUGH)
    yield Result("imaginary", imaginary.ravel(), want.imag, ROUGH)
