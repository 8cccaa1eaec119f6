"""Found only with this folder's parent on the path (`neuroncore alias-path`): activates the alias
for a program that was started by another, and steps aside."""

import importlib
import sys

from neuroncore.frontend.alias import activate

del sys.modules["neuronxcc"]
activate()
sys.modules["neuronxcc"] = importlib.import_module("neuroncore.frontend.neuronxcc")
