"""Likely mistakes in the source of a kernel, found without executing it.

`static` reads the file and all that it calls: `modules` finds files and what names mean, `kernels`
which functions the device runs, `names` what names in those are bound to, `inference` what
expressions are, and `walk` goes through them; `nodes` and `syntax` are what stands in a tree. Rules
are in `subset`, `dynamic`, `purity`, `signatures`, `api_calls` and `older`; names and parameters of
each release, and known issues, are data in `api/`.

These modules import neither numpy nor anything that does, so that a check of a file is done before
those would be loaded.
"""
