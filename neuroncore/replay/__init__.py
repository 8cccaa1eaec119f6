"""Records executed again: without the kernel, on its own inputs or on others, step by step."""
