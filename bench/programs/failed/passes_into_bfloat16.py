"""The plain reading rounded each pass of a float32 product to the format of the result."""
from bench.programs.checks import main
import nki, nki.isa as nisa, nki.language as nl, nki.collectives as ncc
@nki.jit
def kernel(x7):
    t6 = nl.ndarray((16, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t6, src=x7)
    p8 = nl.ndarray((128, 67), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(dst=p8[:, 0:67].reshape_dim(1, [67, 1]), stationary=t6[:, 0:128], moving=t6[:, 61:128])
    return None
main(kernel, 20323317, [('x7', (16, 128), 'float32', 'any', 0, 0)], 'trn3', fp32_matmul='four_pass')
