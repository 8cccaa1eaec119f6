"""Compilation of loops by numba when it pays, with their buffers and machine code.

The loops themselves are in `loops/` of the rooms that they work for. Each has an obvious twin in
its room, and a test that compares them. None is imported before it is needed: see
`neuroncore.base.lazy`.
"""
