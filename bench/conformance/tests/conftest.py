"""`import nki` is ours in the tests of the runners."""

import neuroncore

neuroncore.activate()
