"""Tiles that an instruction has written."""

import nki.isa as nisa
import nki.language as nl

SHAPE = (8, 12)


def made(name, *args, shape=SHAPE, dtype=nl.float32, **options):
    dst = nl.ndarray(shape, dtype)
    getattr(nisa, name)(dst, *args, **options)
    return dst


def from_psum(name, shape, *args, **options):
    total = nl.ndarray(shape, nl.float32, buffer=nl.psum)
    getattr(nisa, name)(total, *args, **options)
    return made("tensor_copy", total, shape=shape)
