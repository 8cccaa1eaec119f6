"""Found only with this folder's parent on the path (`neuroncore alias-path`): activates the alias
for a program that was started by another, and steps aside."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
