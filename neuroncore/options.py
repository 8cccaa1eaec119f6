"""The public name of `neuroncore.base.options`: programs set options by it."""

from neuroncore.base.options import *
