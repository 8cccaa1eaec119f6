"""Number formats: the meaning of bits, and conversions of numbers.

Its functions take numpy arrays and need no kernel: `neuroncore.numerics.cast`, `round`, `info`.
"""

from neuroncore.numerics.convert import Info as Info
from neuroncore.numerics.convert import Statistics as Statistics
from neuroncore.numerics.convert import cast as cast
from neuroncore.numerics.convert import cfp8 as cfp8
from neuroncore.numerics.convert import compare_casts as compare_casts
from neuroncore.numerics.convert import decode as decode
from neuroncore.numerics.convert import encode as encode
from neuroncore.numerics.convert import encodings as encodings
from neuroncore.numerics.convert import info as info
from neuroncore.numerics.convert import round as round
from neuroncore.numerics.convert import stochastic_test as stochastic_test
from neuroncore.numerics.stochastic import Stream as Stream
