"""neuronxcc: the modules that kernels of the older API import (see `neuroncore.frontend.alias`)."""

import logging

# As the vendor's package does: published course work calls logging.disable(logging.OFF).
logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]
