"""The plugin `neuroncore.hosts.pytest`, under the public name for `-p` and `pytest_plugins`."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("neuroncore.hosts.pytest")
