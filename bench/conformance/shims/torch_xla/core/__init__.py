from torch_xla.core import xla_model as xla_model
