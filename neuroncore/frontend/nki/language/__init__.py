"""nki.language: formats, memories, tensors, loops, and functions that lower to instructions.

Operator names such as `nl.add` are both a function of tiles and the token that nki.isa takes as
`op`. Every function that computes says in its docstring which instructions it becomes.
"""

from neuroncore.enums import MemoryRegion as MemoryRegion
from neuroncore.errors import did_you_mean
from neuroncore.frontend.limits import tile_size as tile_size
from neuroncore.frontend.nki.language.control import affine_range as affine_range
from neuroncore.frontend.nki.language.control import device_print as device_print
from neuroncore.frontend.nki.language.control import ds as ds
from neuroncore.frontend.nki.language.control import dynamic_range as dynamic_range
from neuroncore.frontend.nki.language.control import fori_loop as fori_loop
from neuroncore.frontend.nki.language.control import no_reorder as no_reorder
from neuroncore.frontend.nki.language.control import num_programs as num_programs
from neuroncore.frontend.nki.language.control import program_id as program_id
from neuroncore.frontend.nki.language.control import program_ndim as program_ndim
from neuroncore.frontend.nki.language.control import range as range
from neuroncore.frontend.nki.language.control import sequential_range as sequential_range
from neuroncore.frontend.nki.language.control import static_range as static_range
from neuroncore.frontend.nki.language.control import while_loop as while_loop
from neuroncore.frontend.nki.language.creation import empty_like as empty_like
from neuroncore.frontend.nki.language.creation import full as full
from neuroncore.frontend.nki.language.creation import is_hbm as is_hbm
from neuroncore.frontend.nki.language.creation import is_on_chip as is_on_chip
from neuroncore.frontend.nki.language.creation import is_psum as is_psum
from neuroncore.frontend.nki.language.creation import is_sbuf as is_sbuf
from neuroncore.frontend.nki.language.creation import load as load
from neuroncore.frontend.nki.language.creation import ndarray as ndarray
from neuroncore.frontend.nki.language.creation import ones as ones
from neuroncore.frontend.nki.language.creation import par_dim as par_dim
from neuroncore.frontend.nki.language.creation import shared_constant as shared_constant
from neuroncore.frontend.nki.language.creation import (
    shared_identity_matrix as shared_identity_matrix,
)
from neuroncore.frontend.nki.language.creation import store as store
from neuroncore.frontend.nki.language.creation import zeros as zeros
from neuroncore.frontend.nki.language.creation import zeros_like as zeros_like
from neuroncore.frontend.nki.language.elementwise import abs as abs
from neuroncore.frontend.nki.language.elementwise import abs_max as abs_max
from neuroncore.frontend.nki.language.elementwise import abs_min as abs_min
from neuroncore.frontend.nki.language.elementwise import add as add
from neuroncore.frontend.nki.language.elementwise import arctan as arctan
from neuroncore.frontend.nki.language.elementwise import average as average
from neuroncore.frontend.nki.language.elementwise import bitwise_and as bitwise_and
from neuroncore.frontend.nki.language.elementwise import bitwise_or as bitwise_or
from neuroncore.frontend.nki.language.elementwise import bitwise_xor as bitwise_xor
from neuroncore.frontend.nki.language.elementwise import bypass as bypass
from neuroncore.frontend.nki.language.elementwise import ceil as ceil
from neuroncore.frontend.nki.language.elementwise import copy as copy
from neuroncore.frontend.nki.language.elementwise import divide as divide
from neuroncore.frontend.nki.language.elementwise import equal as equal
from neuroncore.frontend.nki.language.elementwise import erf as erf
from neuroncore.frontend.nki.language.elementwise import erf_dx as erf_dx
from neuroncore.frontend.nki.language.elementwise import exp as exp
from neuroncore.frontend.nki.language.elementwise import floor as floor
from neuroncore.frontend.nki.language.elementwise import fmod as fmod
from neuroncore.frontend.nki.language.elementwise import gelu as gelu
from neuroncore.frontend.nki.language.elementwise import gelu_apprx_sigmoid as gelu_apprx_sigmoid
from neuroncore.frontend.nki.language.elementwise import (
    gelu_apprx_sigmoid_dx as gelu_apprx_sigmoid_dx,
)
from neuroncore.frontend.nki.language.elementwise import gelu_apprx_tanh as gelu_apprx_tanh
from neuroncore.frontend.nki.language.elementwise import gelu_dx as gelu_dx
from neuroncore.frontend.nki.language.elementwise import greater as greater
from neuroncore.frontend.nki.language.elementwise import greater_equal as greater_equal
from neuroncore.frontend.nki.language.elementwise import invert as invert
from neuroncore.frontend.nki.language.elementwise import left_shift as left_shift
from neuroncore.frontend.nki.language.elementwise import less as less
from neuroncore.frontend.nki.language.elementwise import less_equal as less_equal
from neuroncore.frontend.nki.language.elementwise import log as log
from neuroncore.frontend.nki.language.elementwise import logical_and as logical_and
from neuroncore.frontend.nki.language.elementwise import logical_not as logical_not
from neuroncore.frontend.nki.language.elementwise import logical_or as logical_or
from neuroncore.frontend.nki.language.elementwise import logical_xor as logical_xor
from neuroncore.frontend.nki.language.elementwise import maximum as maximum
from neuroncore.frontend.nki.language.elementwise import minimum as minimum
from neuroncore.frontend.nki.language.elementwise import mish as mish
from neuroncore.frontend.nki.language.elementwise import mod as mod
from neuroncore.frontend.nki.language.elementwise import multiply as multiply
from neuroncore.frontend.nki.language.elementwise import negative as negative
from neuroncore.frontend.nki.language.elementwise import not_equal as not_equal
from neuroncore.frontend.nki.language.elementwise import power as power
from neuroncore.frontend.nki.language.elementwise import prelu as prelu
from neuroncore.frontend.nki.language.elementwise import reciprocal as reciprocal
from neuroncore.frontend.nki.language.elementwise import relu as relu
from neuroncore.frontend.nki.language.elementwise import right_shift as right_shift
from neuroncore.frontend.nki.language.elementwise import rsqrt as rsqrt
from neuroncore.frontend.nki.language.elementwise import sigmoid as sigmoid
from neuroncore.frontend.nki.language.elementwise import sign as sign
from neuroncore.frontend.nki.language.elementwise import silu as silu
from neuroncore.frontend.nki.language.elementwise import silu_dx as silu_dx
from neuroncore.frontend.nki.language.elementwise import softplus as softplus
from neuroncore.frontend.nki.language.elementwise import sqrt as sqrt
from neuroncore.frontend.nki.language.elementwise import square as square
from neuroncore.frontend.nki.language.elementwise import subtract as subtract
from neuroncore.frontend.nki.language.elementwise import tanh as tanh
from neuroncore.frontend.nki.language.elementwise import trunc as trunc
from neuroncore.frontend.nki.language.elementwise import where as where
from neuroncore.frontend.nki.language.matrix import broadcast_to as broadcast_to
from neuroncore.frontend.nki.language.matrix import expand_dims as expand_dims
from neuroncore.frontend.nki.language.matrix import matmul as matmul
from neuroncore.frontend.nki.language.matrix import transpose as transpose
from neuroncore.frontend.nki.language.movement import gather_flattened as gather_flattened
from neuroncore.frontend.nki.language.movement import load_transpose2d as load_transpose2d
from neuroncore.frontend.nki.language.random import dropout as dropout
from neuroncore.frontend.nki.language.random import rand as rand
from neuroncore.frontend.nki.language.random import random_seed as random_seed
from neuroncore.frontend.nki.language.reductions import all as all
from neuroncore.frontend.nki.language.reductions import max as max
from neuroncore.frontend.nki.language.reductions import mean as mean
from neuroncore.frontend.nki.language.reductions import min as min
from neuroncore.frontend.nki.language.reductions import prod as prod
from neuroncore.frontend.nki.language.reductions import rms_norm as rms_norm
from neuroncore.frontend.nki.language.reductions import softmax as softmax
from neuroncore.frontend.nki.language.reductions import sum as sum
from neuroncore.frontend.nki.language.reductions import var as var
from neuroncore.frontend.nki.language.trigonometry import cos as cos
from neuroncore.frontend.nki.language.trigonometry import sin as sin
from neuroncore.frontend.nki.language.trigonometry import tan as tan
from neuroncore.frontend.nki.objects import NKIObject as NKIObject
from neuroncore.frontend.nki.tensor import NkiTensor as NkiTensor
from neuroncore.numerics.formats import Format as DType  # noqa: F401
from neuroncore.numerics.formats import bfloat16 as bfloat16
from neuroncore.numerics.formats import bool_ as bool  # noqa: F401 named so by published kernels
from neuroncore.numerics.formats import bool_ as bool_
from neuroncore.numerics.formats import float4_e2m1fn_x4 as float4_e2m1fn_x4
from neuroncore.numerics.formats import float8_e4m3 as float8_e4m3
from neuroncore.numerics.formats import float8_e4m3fn as float8_e4m3fn
from neuroncore.numerics.formats import float8_e4m3fn_x4 as float8_e4m3fn_x4
from neuroncore.numerics.formats import float8_e5m2 as float8_e5m2
from neuroncore.numerics.formats import float8_e5m2_x4 as float8_e5m2_x4
from neuroncore.numerics.formats import float8_e8m0fnu as float8_e8m0fnu
from neuroncore.numerics.formats import float16 as float16
from neuroncore.numerics.formats import float32 as float32
from neuroncore.numerics.formats import int8 as int8
from neuroncore.numerics.formats import int16 as int16
from neuroncore.numerics.formats import int32 as int32
from neuroncore.numerics.formats import tfloat32 as tfloat32
from neuroncore.numerics.formats import uint8 as uint8
from neuroncore.numerics.formats import uint16 as uint16
from neuroncore.numerics.formats import uint32 as uint32

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
hbm = private_hbm


def __getattr__(name: str) -> None:
    hint = did_you_mean(name, globals())
    raise AttributeError(f"nki.language has no {name!r}" + (f"; {hint}" if hint else ""))
