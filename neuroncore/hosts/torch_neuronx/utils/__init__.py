"""The package torch_neuronx.utils, with only the function for the name of the platform."""

from neuroncore.hosts.torch_neuronx.utils import utils as utils
from neuroncore.hosts.torch_neuronx.utils.utils import (
    get_platform_target as get_platform_target,
)
