"""What is likely wrong with a kernel: what its source says, and what the record of its run shows.

* `check` puts both together: `neuroncore check` and `neuroncore.check` are it.
* `execution` runs a file in a process of its own, with limits of time and memory.
* `recorded` reads what a launch left behind: its record and its schedule.
* `races`, `orders` and `shared_hbm` compare what threads and cores do to the same bytes;
  `iterations` and `permutations` what iterations of a loop do.
"""
