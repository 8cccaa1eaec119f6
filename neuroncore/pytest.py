"""The public name of `neuroncore.hosts.pytest`, as `-p` and `pytest_plugins` give it."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("neuroncore.hosts.pytest")
