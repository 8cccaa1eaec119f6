"""Kernels to read and run, in the order of the chapters. Each file has the kernel, its inputs and
the same computation in numpy, and runs by `neuroncore run FILE` or `neuroncore run FILE::KERNEL`.

They are NKI programs and say `import nki`: importing this package makes that name ours.
"""

from neuroncore import activate

activate()
