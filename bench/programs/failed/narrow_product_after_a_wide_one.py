"""A narrow product got the weights that were packed for the wide product before it."""
import nki
import nki.isa as nisa
import nki.language as nl

from bench.programs.checks import main


@nki.jit
def kernel(x9, x13):
    p6 = nl.ndarray((10, 14), dtype=nl.float32, buffer=nl.psum)
    p7 = nl.ndarray((10, 3), dtype=nl.float32, buffer=nl.psum)
    t8 = nl.ndarray((74, 10), dtype=nl.float16, buffer=nl.sbuf)
    nisa.dma_copy(dst=t8, src=x9)
    t12 = nl.ndarray((85, 15), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=t12, src=x13)
    nisa.nc_matmul(dst=p6, stationary=t8[0:64, 0:10], moving=t12[0:64, 0:14])
    nisa.nc_matmul(dst=p7, stationary=t8[0:64, 0:10], moving=t8[0:64, 0:3], accumulate=False)
    return None
main(kernel, 10, [('x9', (74, 10), 'float16', 'any', 0, 0), ('x13', (85, 15), 'bfloat16', 'any', 0, 0)], 'trn2')
