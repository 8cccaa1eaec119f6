"""neuronxcc.nki.typing: annotations for kernel signatures."""

from neuroncore.frontend.nki.typing import mutable as mutable
from neuroncore.frontend.nki.typing import mutable_tensor as mutable_tensor
from neuroncore.frontend.nki.typing import scalar as scalar
from neuroncore.frontend.nki.typing import tensor as tensor
