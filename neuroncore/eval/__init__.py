"""Judges kernels that are not trusted: their records are replayed on hidden inputs, in a process
that never runs them."""

from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec

__all__ = ["Pool", "Spec", "evaluate", "load_spec", "rank"]
