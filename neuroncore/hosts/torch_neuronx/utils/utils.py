"""torch_neuronx.utils.utils: the machine that kernels run on."""

from neuroncore.frontend.settings import target_machine


def get_platform_target() -> str:
    """Return trn1, trn2 or trn3."""
    return target_machine().name
