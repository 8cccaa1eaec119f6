from torch_neuronx.xla_impl import ops as ops
