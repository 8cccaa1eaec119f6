"""Sources of error: every instruction is also computed in float64.

What an instruction means is evaluated a second time, in float64, on what float64 has made of its
inputs. That is the shadow: what comes out in the end is the kernel without any rounding. Integers,
packed formats and random numbers are those of the chip. The error that an instruction introduces is
its result less the float64 evaluation on the chip's own inputs, and counts in units of the last
place (ulp) of the result's format.

Which lines a result's error is owed to is an estimate. A storage keeps, for each line, the sum of
squared errors that came from there. The chip's inputs are put in the place of float64's one after
the other; by how much each moves the result, and the error introduced last, are the proportions in
which the error of the result is divided. Of large tiles some rows (of products, some columns) stand
for all, also for the greatest error; infinities are looked for everywhere.

What goes through integers, packed formats (quantize_mx) and views of bits as another format loses
its history: from there on float64 goes by what the chip has. So does what a kernel puts at an
address where another tensor was, if it reads it by a tensor of another shape.
"""
