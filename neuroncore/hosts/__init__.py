"""Programs that run kernels through neuroncore: Python, notebooks, pytest, and frameworks.

`api` is what Python programs call: `neuroncore.run`, and questions about the run that it returns.
`notebook` and `pytest` are their extensions. `jax_neuronx`, `torch_neuronx` and `torch_xla` stand
in for the packages by which frameworks launch kernels, as far as launching needs them. `alias/` is
the folder that `neuroncore alias-path` prints.
"""
