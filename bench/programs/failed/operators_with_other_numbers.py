from bench.programs.checks import main
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(x):
    data = nl.ndarray((24, 30), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    out = nl.ndarray((24, 30), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=out, data=data, op0=nl.minimum, operand0=1.0)
    nisa.tensor_scalar(dst=out, data=data, op0=nl.minimum, operand0=0.5)
    result = nl.ndarray((24, 30), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=out)
    return result
main(kernel, 0, [('x1', (24, 30), 'float32')], 'trn1')
