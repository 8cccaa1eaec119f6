"""Kernels to read and run, in the order of the chapters. Each file has a kernel, its inputs and a
reference in numpy. Run it with `neuroncore run FILE` or `neuroncore run FILE::KERNEL`.

After this package is imported, `import nki` in a kernel imports neuroncore's implementation.
"""

from neuroncore import activate

activate()
