"""Compiled loops over numbers: formats, products, elementary functions, folds, random numbers.

Other packages import these modules from here. A module is loaded at its first use, and so is numba.
"""

from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.numerics.loops import codec as codec
    from neuroncore.numerics.loops import elementary as elementary
    from neuroncore.numerics.loops import elements as elements
    from neuroncore.numerics.loops import fold as fold
    from neuroncore.numerics.loops import matmul as matmul
    from neuroncore.numerics.loops import philox as philox
    from neuroncore.numerics.loops import precision as precision
    from neuroncore.numerics.loops import rows as rows
    from neuroncore.numerics.loops import shift_registers as shift_registers
    from neuroncore.numerics.loops import stochastic as stochastic
    from neuroncore.numerics.loops import transpose as transpose
else:
    _names = "codec elementary elements fold matmul philox precision rows"
    globals().update(modules(__name__, f"{_names} shift_registers stochastic transpose"))
