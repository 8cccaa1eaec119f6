"""nki.compiler.target: the machine that kernels are compiled for. Programs that launch kernels call
resolve_target (nkipy's tests) or replace it (nki_dispatch_fixes.py of hf-kernels-neuron)."""

from neuroncore.frontend.settings import target_machine


def resolve_target() -> str:
    """Return the name of the target machine: trn1, trn2 or trn3."""
    return target_machine().name


_detect_target = resolve_target
