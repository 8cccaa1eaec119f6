"""torch_xla.core: it has only the module xla_model."""

from neuroncore.hosts.torch_xla.core import xla_model as xla_model
