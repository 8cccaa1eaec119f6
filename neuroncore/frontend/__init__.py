"""The interface for users: the `nki` API in both dialects, the import alias, and launches of
kernels."""
