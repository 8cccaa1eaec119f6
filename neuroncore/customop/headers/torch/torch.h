// The header of custom operators: tensors, their accessors, and operators of whole tensors.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "../neuroncore/operators.h"
#include "../neuroncore/tensor.h"

namespace torch {
namespace neuron {

inline void* tcm_malloc(size_t nbytes) { return neuroncore::allocate_tcm(nbytes); }
inline void tcm_free(void* pointer, neuroncore::Place at = NEURONCORE_HERE) {
  neuroncore::free_tcm(pointer, at);
}

}  // namespace neuron
}  // namespace torch

// Returns the tensor of the result. The value that the kernel function returns is then ignored.
torch::Tensor get_dst_tensor();
