"""Packages that only the vendor ships: imported from a checkout, or importable and refused when
they are called."""
