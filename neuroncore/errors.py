"""The public name of `neuroncore.base.errors`: programs catch errors by it."""

from neuroncore.base.errors import *
