"""Records executed again without the kernel, on the same or other inputs, step by step."""
