"""Code that all packages of neuroncore use: errors, findings, places in the user's source, options
and enumerations.

`lazy` keeps the start quick: it imports modules when they are first used. `processes` runs programs
for a limited time. `codes/` is a table with a row for each code of a finding.

`jit` compiles loops with numba if this saves time, and `buffers` recycles the memory of arrays. The
loops of a package are in its folder `loops/`. For each loop, the package also has the same
computation in plain Python or numpy, and a test compares the two.
"""
