"""The interface for users: the `nki` API, the import alias, and launches of kernels."""
