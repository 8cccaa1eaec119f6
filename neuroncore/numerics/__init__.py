"""Number formats: the meaning of bits, and conversions of numbers.

Its functions take numpy arrays and need no kernel: `neuroncore.numerics.cast`, `round`, `info`.
They are loaded at their first use.
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
    from neuroncore.numerics.convert import info as info
    from neuroncore.numerics.convert import round as round
    from neuroncore.numerics.convert import stochastic_test as stochastic_test
    from neuroncore.numerics.stochastic import Stream as Stream
else:
    globals().update(modules(__name__, "convert generator"))

    _CONVERSIONS = (
        *("Info", "Statistics", "Stream", "cast", "cfp8", "compare_casts", "decode", "encode"),
        *("encodings", "info", "round", "stochastic_test"),
    )

    def __getattr__(name: str) -> Any:
        if name not in _CONVERSIONS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(convert, name)  # noqa: F821

    def __dir__() -> list[str]:
        return [*globals(), *_CONVERSIONS]
