"""Executes records again without the kernel, step by step, on the same or other inputs."""
