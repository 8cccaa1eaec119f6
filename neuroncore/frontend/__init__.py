"""The interface for users: the `nki` API in both dialects (today's `nki`, and the older
`neuronxcc.nki`), the import alias, and launches of kernels."""
