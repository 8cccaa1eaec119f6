"""Likely mistakes in a kernel, from its source and from the record of its run.

* `check` combines both: it is `neuroncore check` and `neuroncore.check`.
* `execution` runs a file in a separate process, with limits of time and memory.
* `recorded` reads the record and the schedule of a launch.
* `races`, `orders` and `shared_hbm` compare accesses of threads and cores to the same bytes;
  `iterations` and `permutations` compare iterations of a loop.
"""
