"""Random legal programs, each of which is run, verified, replayed and scheduled.

    python -m bench.programs [--seed SEED] [--count COUNT] [--seconds SECONDS] [--jobs JOBS]
                             [--state FILE]

The generator draws one statement after another; it knows the tensors of the statements before. It
imports nothing of the package, because the documentation defines which programs are legal. A
program that fails is shrunk, and printed as a file that can be run. When its fault has been mended,
the file is kept in `failed/`. All files there are run first each time.
"""
