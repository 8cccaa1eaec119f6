"""Programs that run kernels through neuroncore: Python, notebooks, pytest, and frameworks.

`api` is for Python programs: `neuroncore.run`, and the `Run` that it returns. `notebook` is an
extension for notebooks, and `pytest` a plugin for pytest. Frameworks launch kernels with AWS's
packages. `jax_neuronx`, `torch_neuronx` and `torch_xla` replace these packages. `neuroncore
alias-path` prints the folder `alias/`, with which `import nki` finds neuroncore."""
