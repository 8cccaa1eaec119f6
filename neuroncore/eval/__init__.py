"""Judges kernels that are not trusted: a process that never runs the kernel replays its records on
hidden inputs."""

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

__all__ = ["Candidate", "Pool", "ProcessLimits", "Spec", "evaluate", "load_spec", "rank"]
