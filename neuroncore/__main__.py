"""python -m neuroncore"""

import sys

from neuroncore.cli import main

sys.exit(main())
