"""torch_neuronx.utils: it has only the name of the platform."""

from neuroncore.hosts.torch_neuronx.utils import utils as utils
from neuroncore.hosts.torch_neuronx.utils.utils import (
    get_platform_target as get_platform_target,
)
