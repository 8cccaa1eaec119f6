"""Judges kernels that are not trusted: their records are replayed on hidden inputs, in a process
that never runs them."""

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

__all__ = ["Candidate", "Pool", "ProcessLimits", "Spec", "evaluate", "load_spec", "rank"]
