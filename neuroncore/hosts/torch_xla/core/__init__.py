"""The package torch_xla.core, with only the module xla_model."""

from neuroncore.hosts.torch_xla.core import xla_model as xla_model
