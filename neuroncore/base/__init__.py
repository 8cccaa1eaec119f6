"""Code that all packages of neuroncore use: errors, findings, places in the user's source, options
and enumerations.

`lazy` keeps the start quick: modules are imported when they are used. `processes` runs programs for
a limited time. `codes/` is the table of the codes of findings: a row for each code.

`jit` compiles loops with numba when this pays, and `buffers` recycles memory of arrays. The loops
of a package are in its folder `loops/`. For each loop the package also has the same computation in
plain Python or numpy, and a test compares the two.
"""
