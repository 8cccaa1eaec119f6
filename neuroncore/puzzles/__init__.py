"""Puzzles: kernels in which lines are missing. Each is about one idea of the machine, and is graded
by its result and its estimate."""

from neuroncore.puzzles.grading import Grade, check
from neuroncore.puzzles.puzzle import Mistake, Puzzle, load, names

__all__ = ["Grade", "Mistake", "Puzzle", "check", "load", "names"]
