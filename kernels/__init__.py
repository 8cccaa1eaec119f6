"""Kernels to read and run, in the order of the chapters. Each file has a kernel, its inputs and a
reference in numpy. Run it with `neuroncore run FILE` or `neuroncore run FILE::KERNEL`.

The kernels `import nki`; importing this package makes neuroncore provide that name.
"""

from neuroncore import activate

activate()
