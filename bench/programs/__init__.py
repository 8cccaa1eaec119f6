"""Random legal programs, each of which is run, verified, replayed and scheduled.

    python -m bench.programs [--seed SEED] [--count COUNT] [--seconds SECONDS] [--jobs JOBS]
                             [--state FILE]

The generator draws one statement after another, and knows the tensors of the earlier statements. It
imports nothing of the package, because the documentation defines which programs are legal. A
program that fails is shrunk, and printed as a file that can be run. After the fault has been
corrected, the file is kept in `failed/`. Each run begins with all files of this folder.
"""

import os

# Memories of tensors at addresses have 24 MiB, of which a program uses little. numpy asks for huge
# pages for them, and the kernel of the operating system clears all of each page.
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")  # numpy reads it when it is imported
