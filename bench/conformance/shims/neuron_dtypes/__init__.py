"""The part of neuron_dtypes that nki-library uses: numpy's number formats, and the packed formats
of MX.

A packed format (`_x4`) is a user-defined dtype of numpy that stores four elements in an unsigned
integer. The dtype has a name. Arrays of it can be made, viewed, copied and read from files, but
numpy can't compute with them. `static_cast` packs and unpacks along the last axis.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy._core import _multiarray_umath

# Slots of numpy's C API whose functions register a dtype, so that no compiler is needed.
DESCRIPTOR_OF_NUMBER, REGISTER, FUNCTIONS_OF = 45, 192, 365
FUNCTIONS = 64  # pointers; numpy's table has fewer
GETITEM, FILL = 21, 32  # functions from this slot to that slot move elements
USE_GETITEM = b"\x20"

_kept: list[Any] = []  # keeps the parts of a dtype alive, to which numpy has pointers


class _Descriptor(ctypes.Structure):
    """The structure PyArray_DescrProto of numpy's C API."""

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("typeobj", ctypes.py_object),
        ("kind", ctypes.c_char),
        ("type", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("flags", ctypes.c_char),
        ("type_num", ctypes.c_int),
        ("elsize", ctypes.c_int),
        ("alignment", ctypes.c_int),
        ("subarray", ctypes.c_void_p),
        ("fields", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("f", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
        ("c_metadata", ctypes.c_void_p),
        ("hash", ctypes.c_ssize_t),
    )


def _function(slot: int, result: Any, *arguments: Any) -> Any:
    """Return the function in a slot of numpy's C API, with the types of its result and
    arguments."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(_multiarray_umath._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[slot]
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


def _registered(name: str, stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return a new dtype of numpy. Its elements are moved like those of the integer type
    `stored`."""
    theirs = _function(FUNCTIONS_OF, ctypes.c_void_p, ctypes.py_object)(stored)
    functions = (ctypes.c_void_p * FUNCTIONS)()
    for slot in range(GETITEM, FILL + 1):
        functions[slot] = ctypes.cast(theirs, ctypes.POINTER(ctypes.c_void_p))[slot]
    scalar: Any = type(name, (np.generic,), {"__module__": __name__, "__slots__": ()})
    descriptor = _Descriptor(
        ob_refcnt=1,
        ob_type=id(np.dtype),
        typeobj=scalar,
        kind=b"V",
        type=b"x",
        byteorder=b"=",
        flags=USE_GETITEM,
        elsize=stored.itemsize,
        alignment=stored.alignment,
        f=ctypes.addressof(functions),
        hash=-1,
    )
    _kept.extend((functions, descriptor, scalar))
    pointer = ctypes.POINTER(_Descriptor)
    number = _function(REGISTER, ctypes.c_int, pointer)(ctypes.byref(descriptor))
    dtype = _function(DESCRIPTOR_OF_NUMBER, ctypes.py_object, ctypes.c_int)(number)
    scalar.dtype = dtype
    np._core.sctypeDict[name] = scalar  # np.dtype("float8_e4m3fn_x4")
    return dtype


@dataclass(frozen=True)
class Packed:
    """A packed format: four elements of `element` in one integer of `stored`, the first in the
    lowest bits."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    element: np.dtype[Any]

    @property
    def two_in_a_byte(self) -> bool:
        return self.stored.itemsize == 2

    def pack(self, values: Any) -> np.ndarray[Any, Any]:
        values = np.asarray(values, np.float32)
        if values.shape[-1] % 4:
            raise ValueError(
                f"the last axis of {values.shape} is not a multiple of four, as {self.dtype} needs"
            )
        codes = np.ascontiguousarray(values.astype(self.element)).view(np.uint8)
        if self.two_in_a_byte:
            codes = (codes[..., ::2] & 15) | (codes[..., 1::2] << 4)
        return codes.view(self.stored).view(self.dtype)

    def unpack(self, array: Any) -> np.ndarray[Any, Any]:
        codes = np.ascontiguousarray(array).view(self.stored).view(np.uint8)
        if self.two_in_a_byte:
            codes = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)
        return codes.view(self.element).astype(np.float32)


def _packed(name: str, stored: type, element: type) -> Packed:
    return Packed(_registered(name, np.dtype(stored)), np.dtype(stored), np.dtype(element))


PACKED = {
    "float8_e4m3fn_x4": _packed("float8_e4m3fn_x4", np.uint32, ml_dtypes.float8_e4m3fn),
    "float8_e5m2_x4": _packed("float8_e5m2_x4", np.uint32, ml_dtypes.float8_e5m2),
    "float4_e2m1fn_x4": _packed("float4_e2m1fn_x4", np.uint16, ml_dtypes.float4_e2m1fn),
}
float8_e4m3fn_x4 = PACKED["float8_e4m3fn_x4"].dtype
float8_e5m2_x4 = PACKED["float8_e5m2_x4"].dtype
float4_e2m1fn_x4 = PACKED["float4_e2m1fn_x4"].dtype
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3 = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)

ROUNDED_TO_TF32 = ("tfloat32", "fp32r")
ALSO = {"bool_": "bool", "float8e4": "float8_e4m3", "float8e5": "float8_e5m2"}
ALSO |= dict.fromkeys(ROUNDED_TO_TF32, "float32")


def to_numpy(dtype: Any) -> np.dtype[Any]:
    """Return numpy's dtype for a dtype of numpy, of nki.language or of torch, or for a name."""
    if isinstance(dtype, np.dtype | type):
        return np.dtype(dtype)
    name = str(dtype).rpartition(".")[2]
    name = ALSO.get(name, name)
    if name in PACKED:
        return PACKED[name].dtype
    return np.dtype(getattr(ml_dtypes, name, name))


def static_cast(array: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return the array in another format: rounded to nearest even, packed or unpacked."""
    array, wanted = np.asarray(array), to_numpy(dtype)
    if array.dtype.name in PACKED:
        if array.dtype == wanted:
            return array
        array = PACKED[array.dtype.name].unpack(array)
    if wanted.name in PACKED:
        return PACKED[wanted.name].pack(array)
    return _to_tf32(array) if str(dtype) in ROUNDED_TO_TF32 else array.astype(wanted)


def _to_tf32(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    codes = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    codes = (codes + 0xFFF + (codes >> 13 & 1)) & ~np.uint64(0x1FFF)
    return codes.astype(np.uint32).view(np.float32)


def is_float_type(dtype: Any) -> bool:
    found = to_numpy(dtype)
    return found.kind == "f" or "float" in found.name


def sizeinbytes(dtype: Any) -> int:
    return to_numpy(dtype).itemsize


def finfo(dtype: Any) -> Any:
    return ml_dtypes.finfo(to_numpy(dtype))
