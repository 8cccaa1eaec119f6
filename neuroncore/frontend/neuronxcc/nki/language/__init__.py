"""nki.language of the older API: tensors, index expressions, loops, and functions of tiles."""

from neuroncore.enums import MemoryRegion
from neuroncore.errors import did_you_mean
from neuroncore.frontend.limits import tile_size as tile_size
from neuroncore.frontend.neuronxcc.nki.index import arange as arange
from neuroncore.frontend.neuronxcc.nki.index import mgrid as mgrid
from neuroncore.frontend.neuronxcc.nki.isa.constants import bfp16 as bfp16
from neuroncore.frontend.neuronxcc.nki.isa.constants import fp32 as fp32
from neuroncore.frontend.neuronxcc.nki.language import constants as constants
from neuroncore.frontend.neuronxcc.nki.language.creation import empty_like as empty_like
from neuroncore.frontend.neuronxcc.nki.language.creation import full as full
from neuroncore.frontend.neuronxcc.nki.language.creation import load as load
from neuroncore.frontend.neuronxcc.nki.language.creation import load_transpose2d as load_transpose2d
from neuroncore.frontend.neuronxcc.nki.language.creation import ndarray as ndarray
from neuroncore.frontend.neuronxcc.nki.language.creation import ones as ones
from neuroncore.frontend.neuronxcc.nki.language.creation import par_dim as par_dim
from neuroncore.frontend.neuronxcc.nki.language.creation import shared_constant as shared_constant
from neuroncore.frontend.neuronxcc.nki.language.creation import (
    shared_identity_matrix as shared_identity_matrix,
)
from neuroncore.frontend.neuronxcc.nki.language.creation import store as store
from neuroncore.frontend.neuronxcc.nki.language.creation import zeros as zeros
from neuroncore.frontend.neuronxcc.nki.language.creation import zeros_like as zeros_like
from neuroncore.frontend.neuronxcc.nki.language.elementwise import abs as abs
from neuroncore.frontend.neuronxcc.nki.language.elementwise import add as add
from neuroncore.frontend.neuronxcc.nki.language.elementwise import arctan as arctan
from neuroncore.frontend.neuronxcc.nki.language.elementwise import bitwise_and as bitwise_and
from neuroncore.frontend.neuronxcc.nki.language.elementwise import bitwise_or as bitwise_or
from neuroncore.frontend.neuronxcc.nki.language.elementwise import bitwise_xor as bitwise_xor
from neuroncore.frontend.neuronxcc.nki.language.elementwise import broadcast_to as broadcast_to
from neuroncore.frontend.neuronxcc.nki.language.elementwise import ceil as ceil
from neuroncore.frontend.neuronxcc.nki.language.elementwise import copy as copy
from neuroncore.frontend.neuronxcc.nki.language.elementwise import cos as cos
from neuroncore.frontend.neuronxcc.nki.language.elementwise import divide as divide
from neuroncore.frontend.neuronxcc.nki.language.elementwise import equal as equal
from neuroncore.frontend.neuronxcc.nki.language.elementwise import erf as erf
from neuroncore.frontend.neuronxcc.nki.language.elementwise import erf_dx as erf_dx
from neuroncore.frontend.neuronxcc.nki.language.elementwise import exp as exp
from neuroncore.frontend.neuronxcc.nki.language.elementwise import floor as floor
from neuroncore.frontend.neuronxcc.nki.language.elementwise import fmod as fmod
from neuroncore.frontend.neuronxcc.nki.language.elementwise import gelu as gelu
from neuroncore.frontend.neuronxcc.nki.language.elementwise import (
    gelu_apprx_sigmoid as gelu_apprx_sigmoid,
)
from neuroncore.frontend.neuronxcc.nki.language.elementwise import (
    gelu_apprx_tanh as gelu_apprx_tanh,
)
from neuroncore.frontend.neuronxcc.nki.language.elementwise import gelu_dx as gelu_dx
from neuroncore.frontend.neuronxcc.nki.language.elementwise import greater as greater
from neuroncore.frontend.neuronxcc.nki.language.elementwise import greater_equal as greater_equal
from neuroncore.frontend.neuronxcc.nki.language.elementwise import invert as invert
from neuroncore.frontend.neuronxcc.nki.language.elementwise import left_shift as left_shift
from neuroncore.frontend.neuronxcc.nki.language.elementwise import less as less
from neuroncore.frontend.neuronxcc.nki.language.elementwise import less_equal as less_equal
from neuroncore.frontend.neuronxcc.nki.language.elementwise import log as log
from neuroncore.frontend.neuronxcc.nki.language.elementwise import logical_and as logical_and
from neuroncore.frontend.neuronxcc.nki.language.elementwise import logical_not as logical_not
from neuroncore.frontend.neuronxcc.nki.language.elementwise import logical_or as logical_or
from neuroncore.frontend.neuronxcc.nki.language.elementwise import logical_xor as logical_xor
from neuroncore.frontend.neuronxcc.nki.language.elementwise import maximum as maximum
from neuroncore.frontend.neuronxcc.nki.language.elementwise import minimum as minimum
from neuroncore.frontend.neuronxcc.nki.language.elementwise import mish as mish
from neuroncore.frontend.neuronxcc.nki.language.elementwise import mod as mod
from neuroncore.frontend.neuronxcc.nki.language.elementwise import multiply as multiply
from neuroncore.frontend.neuronxcc.nki.language.elementwise import negative as negative
from neuroncore.frontend.neuronxcc.nki.language.elementwise import not_equal as not_equal
from neuroncore.frontend.neuronxcc.nki.language.elementwise import power as power
from neuroncore.frontend.neuronxcc.nki.language.elementwise import reciprocal as reciprocal
from neuroncore.frontend.neuronxcc.nki.language.elementwise import relu as relu
from neuroncore.frontend.neuronxcc.nki.language.elementwise import right_shift as right_shift
from neuroncore.frontend.neuronxcc.nki.language.elementwise import rsqrt as rsqrt
from neuroncore.frontend.neuronxcc.nki.language.elementwise import sigmoid as sigmoid
from neuroncore.frontend.neuronxcc.nki.language.elementwise import sign as sign
from neuroncore.frontend.neuronxcc.nki.language.elementwise import silu as silu
from neuroncore.frontend.neuronxcc.nki.language.elementwise import silu_dx as silu_dx
from neuroncore.frontend.neuronxcc.nki.language.elementwise import sin as sin
from neuroncore.frontend.neuronxcc.nki.language.elementwise import softplus as softplus
from neuroncore.frontend.neuronxcc.nki.language.elementwise import sqrt as sqrt
from neuroncore.frontend.neuronxcc.nki.language.elementwise import square as square
from neuroncore.frontend.neuronxcc.nki.language.elementwise import static_cast as static_cast
from neuroncore.frontend.neuronxcc.nki.language.elementwise import subtract as subtract
from neuroncore.frontend.neuronxcc.nki.language.elementwise import tan as tan
from neuroncore.frontend.neuronxcc.nki.language.elementwise import tanh as tanh
from neuroncore.frontend.neuronxcc.nki.language.elementwise import trunc as trunc
from neuroncore.frontend.neuronxcc.nki.language.elementwise import where as where
from neuroncore.frontend.neuronxcc.nki.language.folds import all as all
from neuroncore.frontend.neuronxcc.nki.language.folds import all_reduce as all_reduce
from neuroncore.frontend.neuronxcc.nki.language.folds import atomic_rmw as atomic_rmw
from neuroncore.frontend.neuronxcc.nki.language.folds import device_print as device_print
from neuroncore.frontend.neuronxcc.nki.language.folds import dropout as dropout
from neuroncore.frontend.neuronxcc.nki.language.folds import expand_dims as expand_dims
from neuroncore.frontend.neuronxcc.nki.language.folds import finfo as finfo
from neuroncore.frontend.neuronxcc.nki.language.folds import gather_flattened as gather_flattened
from neuroncore.frontend.neuronxcc.nki.language.folds import gemm_grid as gemm_grid
from neuroncore.frontend.neuronxcc.nki.language.folds import (
    gemm_stationary_grid as gemm_stationary_grid,
)
from neuroncore.frontend.neuronxcc.nki.language.folds import matmul as matmul
from neuroncore.frontend.neuronxcc.nki.language.folds import max as max
from neuroncore.frontend.neuronxcc.nki.language.folds import mean as mean
from neuroncore.frontend.neuronxcc.nki.language.folds import min as min
from neuroncore.frontend.neuronxcc.nki.language.folds import prod as prod
from neuroncore.frontend.neuronxcc.nki.language.folds import rand as rand
from neuroncore.frontend.neuronxcc.nki.language.folds import random_seed as random_seed
from neuroncore.frontend.neuronxcc.nki.language.folds import rms_norm as rms_norm
from neuroncore.frontend.neuronxcc.nki.language.folds import softmax as softmax
from neuroncore.frontend.neuronxcc.nki.language.folds import sum as sum
from neuroncore.frontend.neuronxcc.nki.language.folds import transpose as transpose
from neuroncore.frontend.neuronxcc.nki.language.folds import var as var
from neuroncore.frontend.neuronxcc.nki.language.loops import affine_range as affine_range
from neuroncore.frontend.neuronxcc.nki.language.loops import loop_reduce as loop_reduce
from neuroncore.frontend.neuronxcc.nki.language.loops import nc as nc
from neuroncore.frontend.neuronxcc.nki.language.loops import num_programs as num_programs
from neuroncore.frontend.neuronxcc.nki.language.loops import program_id as program_id
from neuroncore.frontend.neuronxcc.nki.language.loops import program_ndim as program_ndim
from neuroncore.frontend.neuronxcc.nki.language.loops import sequential_range as sequential_range
from neuroncore.frontend.neuronxcc.nki.language.loops import spmd_dim as spmd_dim
from neuroncore.frontend.neuronxcc.nki.language.loops import static_range as static_range
from neuroncore.frontend.nki.language.control import ds as ds
from neuroncore.numerics.formats import bfloat16 as bfloat16
from neuroncore.numerics.formats import bool_ as bool_
from neuroncore.numerics.formats import float8_e4m3 as float8_e4m3
from neuroncore.numerics.formats import float8_e5m2 as float8_e5m2
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
    raise AttributeError(f"neuronxcc.nki.language has no {name!r}" + (f"; {hint}" if hint else ""))
