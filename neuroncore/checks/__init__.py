"""Likely mistakes in a kernel, from its source and from the record of its run.

* `check` combines the checks of both: it is `neuroncore check` and `neuroncore.check`.
* `execution` runs a file in a separate process, with limits of time and memory.
* `recorded` reads the record of a launch (the instructions that it issued) and its schedule; `uses`
  finds the instructions that use each byte.
* `races` compares accesses of threads and cores to the same bytes; `orders` executes cores, and
  iterations of loops, in other orders.
"""
