"""nki.compiler.target: which machine kernels are for. Harnesses ask for it (nkipy's tests), or keep
what it finds (nki_dispatch_fixes.py of hf-kernels-neuron)."""

from neuroncore.frontend.settings import target_machine


def resolve_target() -> str:
    """trn1, trn2 or trn3."""
    return target_machine().name


_detect_target = resolve_target
