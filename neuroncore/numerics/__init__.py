"""Number formats: the meaning of their bits, and conversions between them.

The functions take arrays of numpy, torch or jax and need no kernel: `cast`, `quantize`, `ulps`,
`finfo` and others (docs/formats.md). Each module is loaded at its first use.
"""

from typing import TYPE_CHECKING, Any

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.numerics import generator as generator
    from neuroncore.numerics.convert import Info as Info
    from neuroncore.numerics.convert import Statistics as Statistics
    from neuroncore.numerics.convert import cast as cast
    from neuroncore.numerics.convert import cfp8 as cfp8
    from neuroncore.numerics.convert import compare_casts as compare_casts
    from neuroncore.numerics.convert import decode as decode
    from neuroncore.numerics.convert import encode as encode
    from neuroncore.numerics.convert import encodings as encodings
    from neuroncore.numerics.convert import finfo as finfo
    from neuroncore.numerics.convert import info as info
    from neuroncore.numerics.convert import round as round
    from neuroncore.numerics.convert import stochastic_round as stochastic_round
    from neuroncore.numerics.convert import stochastic_test as stochastic_test
    from neuroncore.numerics.measures import sqnr as sqnr
    from neuroncore.numerics.measures import ulps as ulps
    from neuroncore.numerics.scaled import Quantized as Quantized
    from neuroncore.numerics.scaled import dequantize as dequantize
    from neuroncore.numerics.scaled import quantize as quantize
    from neuroncore.numerics.stochastic import Stream as Stream
else:
    globals().update(modules(__name__, "convert generator measures scaled"))

    _PUBLIC = {
        name: module
        for module, names in (
            (
                convert,  # noqa: F821
                "Info Statistics Stream cast cfp8 compare_casts decode encode encodings finfo info "
                "round stochastic_round stochastic_test",
            ),
            (measures, "sqnr ulps"),  # noqa: F821
            (scaled, "Quantized dequantize quantize"),  # noqa: F821
        )
        for name in names.split()
    }

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_PUBLIC[name], name)  # cached: the next use needs no call
        return found

    def __dir__() -> list[str]:
        return [*globals(), *_PUBLIC]
