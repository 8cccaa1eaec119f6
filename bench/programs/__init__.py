"""Random legal programs, each of them run, verified, replayed and scheduled.

    python -m bench.programs [--seed SEED] [--count COUNT] [--seconds SECONDS]

The generator draws each next statement with knowledge of the tensors that there are, and imports
nothing of the package: legal is what the documents say. A failure is shrunk and printed as a file
that runs.
"""
