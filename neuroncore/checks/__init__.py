"""Likely mistakes in a kernel, from its source and from the record of its run.

* `check` puts both together: `neuroncore check` and `neuroncore.check` are it.
* `execution` runs a file in a process of its own, with limits of time and memory.
* `recorded` reads what a launch left behind: its record and its schedule.
* `races`, `orders` and `shared_hbm` compare what threads and cores do to the same bytes;
  `iterations` and `permutations` what iterations of a loop do.
"""
