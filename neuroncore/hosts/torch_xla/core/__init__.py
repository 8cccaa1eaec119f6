"""torch_xla.core: only xla_model."""

from neuroncore.hosts.torch_xla.core import xla_model as xla_model
