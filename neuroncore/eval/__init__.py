"""Judgment of kernels that are not trusted. One process runs the kernel and records its
instructions. Another process, which never runs the kernel, replays the record on hidden inputs."""

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

__all__ = ["Candidate", "Pool", "ProcessLimits", "Spec", "evaluate", "load_spec", "rank"]
