"""neuronxcc: the modules that kernels of the older API import (see `neuroncore.frontend.alias`)."""

import logging

# The vendor's package defines this level too: published course work calls
# logging.disable(logging.OFF).
logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]

__version__ = "0.0.0+neuroncore"  # scripts print it among the versions of their environment
