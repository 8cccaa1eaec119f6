"""Evaluation of candidates for published programs that search for fast kernels. Each module has the
interface of one program's own evaluator, and calls `neuroncore.eval`."""
