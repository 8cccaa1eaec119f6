"""torch_xla.core: of it, xla_model."""

from neuroncore.hosts.torch_xla.core import xla_model as xla_model
