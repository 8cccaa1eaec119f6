"""Judges candidates, which are kernels that are not trusted. A candidate runs on public inputs in
an isolated process, which records the instructions that the candidate issues. Another process
replays this record on hidden inputs. The second process never runs the candidate."""

from neuroncore.eval.isolation import ProcessLimits
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.ranking import rank
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

__all__ = ["Candidate", "Pool", "ProcessLimits", "Spec", "evaluate", "load_spec", "rank"]
