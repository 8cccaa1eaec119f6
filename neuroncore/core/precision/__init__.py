"""Sources of error: every instruction is also computed in float64.

Each instruction is evaluated a second time, in float64, on float64 inputs. This shadow computation
has the results that the kernel would have without any rounding. The chip's values are the results
that the emulator computes in the formats of the kernel. For integers, packed formats and random
numbers, the shadow uses the chip's values. An instruction introduces this error: its result on the
chip minus its float64 evaluation on the chip's inputs. The unit of the error is the unit in the
last place (ulp) of the result's format.

The attribution of a result's error to lines is an estimate. Each storage (the memory of one tensor)
has an `Energy`: for each line, the sum of the squared errors that the line caused in the storage.
To divide the error of a result, its instruction is evaluated several times in float64, each time
with the chip's values for one more input. Each input gets a part of the error in proportion to the
change that it causes. The instruction gets a part in proportion to the error that it introduces.
For a large tile, only a sample is evaluated in this way: some lanes, or for a product some columns.
The largest error is also taken from the sample, but infinities are searched for in all elements.

Data loses its history if it goes through integers, packed formats (quantize_mx), or views of its
bits as another format: after that, the float64 computation uses the chip's values. Data also loses
its history if a kernel writes it at the address of another tensor, and reads it as a tensor of
another shape."""
