"""A module of the folder `alias`, which `neuroncore alias-path` prints. With this folder on
Python's path, `import nki` finds neuroncore, also in programs that other programs start. The module
replaces itself with the module that the active alias finds (`frontend.alias.step_aside`)."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
