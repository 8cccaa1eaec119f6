"""Makes `import nki` find neuroncore in programs that other programs start, if this folder's parent
is on Python's path (`neuroncore alias-path` prints it). Each module here replaces itself with the
module that `import` finds while the alias is active (`frontend.alias.step_aside`)."""

from neuroncore.frontend.alias import step_aside

step_aside(__name__)
