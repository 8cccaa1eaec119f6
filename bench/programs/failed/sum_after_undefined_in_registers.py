"""Undefined elements in registers of the Vector engine were reported at a sum of the Scalar
engine."""

from bench.programs.checks import main
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(x1):
    t1 = nl.ndarray((64, 2), dtype=nl.float8_e5m2, buffer=nl.sbuf)
    t5 = nl.ndarray((37, 2), dtype=nl.float16, buffer=nl.sbuf)
    nisa.tensor_scalar_cumulative(
        dst=t5, src=t1[:37], op0=nl.less, op1=nl.add, imm0=1.0,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )  # fmt: skip
    t9 = nl.ndarray((128, 35), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t9, src=x1)
    t10 = nl.ndarray((128, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.activation_reduce(dst=t9, data=t9, op=nl.abs, reduce_op=nl.add, reduce_res=t10)
    out = nl.ndarray((128, 1), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t10)
    return out


main(kernel, 690418154, [("x1", (128, 35), "float32", "any", 0, 0)], "trn1")
