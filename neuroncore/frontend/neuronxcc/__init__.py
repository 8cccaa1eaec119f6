"""neuronxcc: the modules that kernels of the older API import (see `neuroncore.frontend.alias`)."""

import logging

# The vendor's package does this, and published course work says logging.disable(logging.OFF).
logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]
