"""Code for every room: errors, findings, places in the user's source, options and enumerations.

`lazy` keeps the start quick: modules are imported when they are used. `processes` ends child
processes. `codes/` is the table of the codes of findings, a row each.

`jit` compiles loops by numba when it pays, and `buffers` keeps blocks of memory for them. The loops
themselves are in `loops/` of the rooms that they work for. Each has an obvious twin in its room,
and a test that compares them. None is imported before it is needed: see `lazy`.
"""
