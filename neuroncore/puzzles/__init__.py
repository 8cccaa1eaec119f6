"""Puzzles: kernels with a hole, each about one idea of the machine, graded by result and
estimate."""

from neuroncore.puzzles.grading import Grade, check
from neuroncore.puzzles.puzzle import Mistake, Puzzle, load, names

__all__ = ["Grade", "Mistake", "Puzzle", "check", "load", "names"]
