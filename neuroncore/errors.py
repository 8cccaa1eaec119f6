"""The errors of `neuroncore.base.errors`, under the public name by which programs catch them."""

from neuroncore.base.errors import *
