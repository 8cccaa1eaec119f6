"""Packages that only the vendor ships: imported from a checkout, or importable with an error when they
are called."""
