"""With the folder `alias` on Python's path, `import nki` finds neuroncore, also in programs that
other programs start (`neuroncore alias-path` prints the folder). Each module in it replaces itself
with the module that `import` finds while the alias is active (`frontend.alias.step_aside`)."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
