"""Sources of error: every instruction is also computed in float64.

Each instruction is evaluated a second time, in float64, on float64 inputs. The result of this
shadow is that of the kernel without any rounding. Integers, packed formats and random numbers
are those of the chip. The error that an instruction introduces is its result minus the float64
evaluation on the chip's own inputs, in units of the last place (ulp) of the result's format.

The attribution of a result's error to lines is an estimate. A storage keeps, for each line, the sum
of squared errors that came from it. The chip's inputs replace those of float64 one after the other;
the error of the result is divided in proportion to the change that each causes, and to the error
introduced last. For large tiles some rows (for products, some columns) represent all, also for the
greatest error; infinities are searched for everywhere.

Data that goes through integers, packed formats (quantize_mx) or views of bits as another format
loses its history: from there on float64 uses the chip's values. This also holds for data that a
kernel puts at the address of another tensor, if it reads it as a tensor of another shape.
"""
