"""A deferred product was missing when another tensor at the same address was read."""
import nki
import nki.isa as nisa
import nki.language as nl

from bench.programs.checks import main


@nki.jit
def kernel(x1, x2):
    t1 = nl.ndarray((8, 16), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=t1, src=x1)
    t2 = nl.ndarray((8, 40), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=t2, src=x2)
    p3 = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
    p4 = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
    nisa.nc_matmul(dst=p3, stationary=t1, moving=t2)
    nisa.nc_matmul(dst=p3, stationary=t1, moving=t2)
    t5 = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=t5, src=p4)
    o6 = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=o6, src=t5)
    return o6
main(kernel, 1, [('x1', (8, 16), 'bfloat16', 'any', 0, 0), ('x2', (8, 40), 'bfloat16', 'any', 0, 0)], 'trn2')
