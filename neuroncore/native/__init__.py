"""Loops compiled by numba. Each has an obvious twin above this room, and a test that compares them.

Nothing in this folder is imported before it is needed: see `neuroncore.startup.lazy`.
"""
