"""The loops of the schedule that numba compiles to machine code: dependencies, spills, allocation
of memory, and the timeline."""
