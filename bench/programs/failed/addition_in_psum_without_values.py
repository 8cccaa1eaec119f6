"""The estimate of an addition in PSUM failed if an instruction of the program had no values."""
from bench.programs.checks import main
import nki, nki.isa as nisa, nki.language as nl, nki.collectives as ncc
@nki.jit
def kernel(x3):
    t1 = nl.ndarray((26, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    t4 = nl.ndarray((24, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t4, src=x3)
    t5 = nl.ndarray((24, 41), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t5[:, 1:41], src=t1[:, 0:40].vector_select(0, t4))
    p14 = nl.ndarray((94, 44), dtype=nl.int8, buffer=nl.psum)
    t16 = nl.ndarray((94, 44), dtype=nl.int8, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=p14[0:63, 1:37].expand_dim(1), data1=p14[0:63, 0:36], data2=t16[0:63, 3:39], op=nl.add)
    return None
main(kernel, 20268103, [('x3', (24, 1), 'uint32', 'known', 553883, 25)], 'trn3', rings=3)
