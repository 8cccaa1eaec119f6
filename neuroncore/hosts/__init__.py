"""Programs that run kernels through neuroncore: Python, notebooks, pytest, and frameworks.

`api` is for Python programs: `neuroncore.run`, and the `Run` that it returns. `notebook` and
`pytest` are extensions of these tools. `jax_neuronx`, `torch_neuronx` and `torch_xla` are stand-ins
for the packages with which frameworks launch kernels. `alias/` is the folder that `neuroncore
alias-path` prints.
"""
