"""Compare interpreters that run the same kernels on a CPU: python bench/peers.py [CASE ...]

The cases are add, softmax, rmsnorm and matmul; by default, all of them run. A line for each case
and size has the milliseconds of numpy, and the time of each interpreter as a multiple of that time:
neuroncore as `neuroncore.run(kernel)` and as `kernel(...)`; triton-viz's interpreter of NKI on the
same functions (without its tracer, which takes longer); Triton's interpreter (TRITON_INTERPRET=1);
and JAX's Pallas with interpret=True. All interpreters use tiles of the same sizes, and their
results are compared with numpy's.

A time is the least CPU time of several calls, summed over threads, in one process that allows one
thread. Each timed call directly follows another call of the same function, and compilation is not
included. The installed versions of the peers are used; neuroncore does not need them. If a peer is
missing, it is left out, and the reason is printed.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measure import alone, describe, least

VARIABLES = {  # Triton reads these when kernels are defined, and JAX at its start
    "TRITON_INTERPRET": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

if __name__ == "__main__":
    os.environ.update(VARIABLES)
    alone()

import numpy as np

import neuroncore

neuroncore.activate()

import nki
from peer_kernels import in_nki

Run = Callable[..., Any]  # writes a kernel's result into its last argument
Peer = Callable[[str], Run]  # the name of a kernel -> a function that runs it
ROUNDS = 7


class Missing(Exception):
    """The reason why a peer can't run here."""


def package(module: str, name: str, install: str) -> Any:
    """Return a module of a package. Raises Missing if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"{name} is not installed ({error}): {install}") from None


def of_triton_viz() -> Peer:
    install = "pip install git+https://github.com/Deep-Learning-Profiling-Tools/triton-viz"
    name = "triton-viz with its interpreter of today's NKI"
    made = package("triton_viz.core.simulation.nki_beta2", name, install)
    client = package("triton_viz.core.client", name, install).ClientManager
    scope = package("triton_viz.core.frontend.base", name, install)._LangPatchScope

    def peer(kernel: str) -> Run:
        function = made.NKIBeta2InterpretedFunction(getattr(in_nki, kernel))

        def run(*given: Any) -> None:
            patched = scope()
            made.nki_patch_lang(patched)
            try:
                function.run(*given, grid=(1,), client_manager=client([]))
            finally:
                patched.restore()

        return run

    return peer


def of_module(module: str, name: str, install: str) -> Callable[[], Peer]:
    def peer() -> Peer:
        made = package(f"peer_kernels.{module}", name, install)
        return lambda kernel: getattr(made, kernel)  # type: ignore[no-any-return]

    return peer


PEERS: dict[str, tuple[str, Callable[[], Peer]]] = {
    "triton-viz": ("triton-viz", of_triton_viz),
    "Triton": ("triton", of_module("in_triton", "Triton or torch", "pip install triton torch")),
    "Pallas": ("jax", of_module("in_pallas", "JAX", "pip install jax")),
}


def ours() -> dict[str, Peer]:
    def run(kernel: str) -> Run:
        function = nki.jit(getattr(in_nki, kernel))
        return lambda *given: neuroncore.run(function, *given)

    return {"run": run, "call": lambda kernel: nki.jit(getattr(in_nki, kernel))}


def installed() -> Iterator[tuple[str, Peer]]:
    """Yield the peers that can run here, each with its name. For every other peer, print the reason
    why it can't run."""
    for name, (distribution, make) in PEERS.items():
        try:
            peer = make()
        except Missing as reason:
            print(f"without {name}: {reason}")
        else:
            print(f"with {name}: {distribution} {version(distribution)}")
            yield name, peer


# --- cases ----------------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rmsnorm(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-6))


REFERENCES: dict[str, tuple[int, Callable[..., Any], tuple[int, ...]]] = {
    "add": (2, np.add, (512, 2048, 4096)),
    "softmax": (1, softmax, (512, 2048, 4096)),
    "rmsnorm": (1, rmsnorm, (512, 2048, 4096)),
    "matmul": (2, lambda a_t, b: a_t.T @ b, (512, 1024)),
}  # kernel -> (the number of its arrays, the same function in numpy, sizes)


def ratios(kernel: str, size: int, peers: dict[str, Peer], rounds: int) -> list[float]:
    """Return the seconds of numpy, and the time of each peer as a multiple of that time. Raises
    AssertionError if a peer has other results."""
    count, reference, _ = REFERENCES[kernel]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((size, size), np.float32) for _ in range(count)]
    wanted, runs = reference(*given), []
    for name, peer in peers.items():
        out, run = np.zeros_like(wanted), peer(kernel)
        run(*given, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3, err_msg=name)
        runs.append(lambda run=run, out=out: run(*given, out))
    numpy = lambda: reference(*given)  # noqa: E731
    own, *others = least(numpy, *runs, rounds=rounds, clock=time.process_time, warm=True)
    return [own, *(other / own for other in others)]


def main() -> None:
    print(describe())
    peers = ours() | dict(installed())
    print(f"\n{'':14s} numpy ms " + " ".join(f"{name:>10s}" for name in peers))
    for kernel, (_, _, sizes) in REFERENCES.items():
        if sys.argv[1:] and kernel not in sys.argv[1:]:
            continue
        for size in sizes:
            own, *others = ratios(kernel, size, peers, ROUNDS)
            columns = " ".join(f"{other:10.2f}" for other in others)
            print(f"{kernel:8s} {size:5d} {own * 1e3:8.2f} {columns}", flush=True)


if __name__ == "__main__":
    main()
