"""Judges kernels that are not trusted, by a replay of their records on hidden inputs. The process
that replays a record never runs the kernel."""

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

__all__ = ["Candidate", "Pool", "ProcessLimits", "Spec", "evaluate", "load_spec", "rank"]
