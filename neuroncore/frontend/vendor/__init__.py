"""Packages that only the vendor ships: served from a checkout that the user names, or importable
and refused when they are called."""
