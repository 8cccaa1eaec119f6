"""Likely mistakes in a kernel, found in its source and in the record of its run.

* `check` combines both searches: it is `neuroncore check` and `neuroncore.check`.
* `execution` runs a file in a separate process, with limits of time and memory.
* `recorded` reads the record of a launch (the instructions that the launch issued) and its
  schedule. `uses` finds the instructions that use each byte.
* `races` compares the accesses of threads and cores to the same bytes. `orders` executes the cores,
  and the iterations of loops, in other orders.
"""
