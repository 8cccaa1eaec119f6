"""Makes `import nki` find neuroncore in the tests of the runners."""

import neuroncore

neuroncore.activate()
