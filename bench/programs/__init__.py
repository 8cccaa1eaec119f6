"""Random legal programs, each of them run, verified, replayed and scheduled.

    python -m bench.programs [--seed SEED] [--count COUNT] [--seconds SECONDS] [--jobs JOBS]
                             [--state FILE]

The generator draws each next statement with knowledge of the tensors that there are, and imports
nothing of the package: legal is what the documents say. A failure is shrunk and printed as a file
that runs. Such files are kept in `failed/` once their fault is mended, and run first each time.
"""
