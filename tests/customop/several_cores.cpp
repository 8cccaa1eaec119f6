// Operators of eight cores, each with its share of the elements.
#include <stdio.h>
#include <torch/torch.h>
#include <neuron/neuron-utils.hpp>

torch::Tensor shared(const torch::Tensor& x, int64_t how) {
  torch::Tensor y = get_dst_tensor();
  printf("core %d of %d\n", get_cpu_id(), get_cpu_count());
  size_t share = (x.numel() + get_cpu_count() - 1) / get_cpu_count();
  size_t first = share * get_cpu_id(), end = first + share;
  if (how == 1 && get_cpu_id() == 5) first -= 1;             // a neighbour's last
  if (how == 2 && get_cpu_id() == 7) return y;               // leaves its share out
  if (how == 3) x.accessor<float, 1>();
  if (how == 4) x.read_stream_accessor<float>();
  if (how != 5 && end > x.numel()) end = x.numel();
  float* buffer = static_cast<float*>(torch::neuron::tcm_malloc((share + 1) * sizeof(float)));
  x.tcm_accessor().tensor_to_tcm<float>(buffer, first, end - first);
  for (size_t i = 0; i < end - first; i++) buffer[i] *= 2;
  y.tcm_accessor().tcm_to_tensor<float>(buffer, first, end - first);
  torch::neuron::tcm_free(buffer);
  return y;
}

torch::Tensor returned(const torch::Tensor& x) { return torch::zeros(x.sizes(), torch::kFloat); }
