"""Code for every room: errors, findings, places in the user's source, options and enumerations.

`lazy` keeps the start quick: modules are imported when they are used. `processes` runs programs for
a limited time. `codes/` is the table of the codes of findings: a row for each code.

`jit` compiles loops with numba when this pays, and `buffers` recycles their memory. The loops are
in the folder `loops/` of each room. Each loop has a plain twin in its room, and a test compares the
two.
"""
