"""Activates the alias in programs that other programs start, if this folder's parent is on Python's
path (`neuroncore alias-path`). It replaces itself with the module that the alias finds."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
