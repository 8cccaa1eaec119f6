"""The module torch_neuronx.utils.utils, which returns the machine on which kernels run."""

from neuroncore.frontend.settings import target_machine


def get_platform_target() -> str:
    """Return the name of the machine: trn1, trn2 or trn3."""
    return target_machine().name
