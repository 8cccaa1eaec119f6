"""The options of `neuroncore.base.options`, under the public name by which programs set them."""

from neuroncore.base.options import *
