"""Internals of the compiler that published tests import."""
