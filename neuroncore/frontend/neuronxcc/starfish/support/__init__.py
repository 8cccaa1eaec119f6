"""Internals of the vendor's compiler that published tests import."""
