"""The passes of a product were added up before they joined a sum that began in a part of the
result."""
import nki
import nki.isa as nisa
import nki.language as nl

from bench.programs.checks import main


@nki.jit
def kernel(x4, x10):
    t3 = nl.ndarray((95, 1, 11), dtype=nl.float8_e5m2, buffer=nl.sbuf)
    nisa.dma_copy(dst=t3, src=x4)
    p8 = nl.ndarray((34, 12), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p8[0:11, 0:4], stationary=t3.flatten_dims(1, 2)[0:64, 0:11], moving=t3.reshape((95, 11))[0:64, 2:6])
    t9 = nl.ndarray((8, 19), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t9, src=x10)
    nisa.nc_matmul(dst=p8[0:16, 0:6], stationary=t9[:, 1:17], moving=t9[:, 12:18])
    return None
main(kernel, 102, [('x4', (95, 1, 11), 'float8_e5m2', 'any', 0, 0), ('x10', (8, 19), 'float32', 'any', 0, 0)], 'trn1', fp32_matmul='four_pass')
