"""A plugin: `pytest -p neuroncore.pytest` serves `import nki`, in workers of pytest-xdist too."""

from neuroncore.frontend.alias import activate

activate()
