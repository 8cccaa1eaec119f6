#include <torch/torch.h>
#include "torchneuron/register.h"

torch::Tensor one(torch::Tensor x) { return torch::zeros(x.sizes(), torch::kFloat); }
torch::Tensor how(torch::Tensor x, int64_t) { return one(x); }

NEURON_LIBRARY(eight, m) {
  m.def("shared", &how, "shared");
  m.def("returned", &one, "returned");
}
