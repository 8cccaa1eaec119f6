"""neuronxcc: what kernels of the older API import; `neuroncore.frontend.alias` gives the name."""

import logging

# The vendor's package does this, and published course work says logging.disable(logging.OFF).
logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]
