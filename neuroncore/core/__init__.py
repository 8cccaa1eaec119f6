"""Cores, which check, execute and record instructions, on one core or two."""
