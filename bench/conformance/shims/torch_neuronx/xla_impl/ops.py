"""The older place of the same function."""

from nki import jit as nki_jit

__all__ = ["nki_jit"]
