"""Evaluation of candidates for published search programs: modules with the interface of the
program's own evaluator, which call `neuroncore.eval`."""
