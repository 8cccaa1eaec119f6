"""Imported only with this folder's parent on the path (`neuroncore alias-path`): activates the
alias in programs that other programs start, and then removes itself."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
