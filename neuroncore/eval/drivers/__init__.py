"""Evaluation of candidates for published programs that search for fast kernels. Each module has the
interface of one program's evaluator, and calls `neuroncore.eval`."""
