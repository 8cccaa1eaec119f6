// Operators of one core: each way to a tensor as it should be, and each as it should not.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <torch/torch.h>

torch::Tensor scaled(const torch::Tensor& x, double factor) {  // by elements
  torch::Tensor y = torch::empty(x.sizes(), torch::kFloat);
  auto from = x.accessor<float, 2>();
  auto to = y.accessor<float, 2>();
  for (int64_t i = 0; i < x.size(0); i++) {
    for (int64_t j = 0; j < x.size(1); j++) to[i][j] = factor * from[i][j];
  }
  return y;
}

torch::Tensor sums(const torch::Tensor& a, const torch::Tensor& b) {  // by streams
  size_t n = a.numel();
  torch::Tensor y = torch::empty({n}, a.dtype());
  auto left = a.read_stream_accessor<c10::BFloat16>();
  auto right = b.read_stream_accessor<c10::BFloat16>();
  auto to = y.write_stream_accessor<c10::BFloat16>();
  for (size_t i = 0; i < n; i++) to.write(left.read() + right.read());
  to.close();
  printf("%d elements\n", static_cast<int>(n));
  return y;
}

// Wrong in the way that `how` says; not at all for 0.
torch::Tensor through_tcm(const torch::Tensor& x, int64_t how) {
  torch::Tensor y = how == 1 ? torch::empty(x.sizes(), torch::kInt)
                             : torch::empty(x.sizes(), torch::kFloat);
  size_t n = x.numel(), room = how == 2 ? n - 1 : n;
  float* buffer = static_cast<float*>(torch::neuron::tcm_malloc(room * sizeof(float)));
  auto from = x.tcm_accessor();
  auto to = y.tcm_accessor();
  from.tensor_to_tcm<float>(buffer, how == 3 ? 1 : 0, n);
  if (how == 4) buffer[n] = 1;
  if (how == 5) abort();
  if (how == 6) while (true) buffer[0] += 1;
  to.tcm_to_tensor<float>(buffer, 0, how == 7 ? n - 2 : n);
  if (how == 8) torch::neuron::tcm_free(buffer + 1);
  if (how != 9) torch::neuron::tcm_free(buffer);
  return y;
}

torch::Tensor by_element(torch::Tensor x, int64_t how) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  if (how == 1) return torch::zeros({3}, torch::kInt).accessor<float, 1>()[0] ? x : y;
  if (how == 2) return x.accessor<float, 2>()[0][0] ? x : y;
  auto from = x.accessor<float, 1>();
  auto to = y.accessor<float, 1>();
  for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i];
  to[how == 3 ? x.numel() : 0] = from[how == 4 ? -1 : 0];
  return y;
}

torch::Tensor by_stream(torch::Tensor x, int64_t how) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  auto from = x.read_stream_accessor<float>();
  auto to = y.write_stream_accessor<float>();
  if (how == 1) auto second = y.read_stream_accessor<float>();
  if (how == 2) auto second = x.write_stream_accessor<float>();
  if (how == 3) y.accessor<float, 1>()[0] = 1;
  if (how >= 4 && how <= 5) {
    y.set_accessor_coherence_policy(how == 4 ? torch::CoherencyEnforcer::INCOHERENT_VERBOSE
                                             : torch::CoherencyEnforcer::INCOHERENT_QUIET);
    auto second = y.read_stream_accessor<float>();
  }
  for (int64_t i = 0; i < x.numel(); i++) to.write(from.read());
  if (how == 6) from.read();
  if (how == 7) to.write(0);
  from.close();
  if (how == 8) from.read();
  return y;
}

torch::Tensor room(const torch::Tensor& x) {  // 16 KiB of TCM, of which a stream keeps 4
  auto from = x.read_stream_accessor<float>();
  void* large = torch::neuron::tcm_malloc(12288);
  void* more = torch::neuron::tcm_malloc(1);
  torch::Tensor y = torch::full({2}, large != nullptr, torch::kFloat);
  y.accessor<float, 1>()[1] = more != nullptr;
  auto slow = y.read_stream_accessor<float>();
  slow.read();
  torch::neuron::tcm_free(large);
  torch::neuron::tcm_free(more);
  return y;
}

torch::Tensor other_shape(const torch::Tensor& x) { return torch::zeros({x.numel(), 1}, torch::kFloat); }

torch::Tensor calculated(const torch::Tensor& a, const torch::Tensor& b, int64_t which) {
  torch::Tensor r = torch::zeros(a.sizes(), a.dtype());
  switch (which) {
    case 0: return torch::abs(a);
    case 1: return torch::ceil_out(r, a);
    case 2: return torch::floor(a);
    case 3: return torch::sin(a);
    case 4: return torch::cos(a);
    case 5: return torch::tan(a);
    case 6: return torch::log(b);
    case 7: return torch::log2(b);
    case 8: return torch::log10(b);
    case 9: return torch::exp(a);
    case 10: return torch::pow(b, a);
    case 11: return torch::pow(b, 1.5);
    case 12: return torch::pow(2.0, a);
    case 13: return torch::clamp(a, -0.5, 0.75);
    case 14: return torch::add(a, b, 2);
    case 15: return torch::sub(a, 3, 2);
    case 16: return torch::mul_out(r, a, b);
    case 17: return torch::div(a, b);
    case 18: return torch::bitwise_and(a, b);
    case 19: return torch::bitwise_or(3, a);
    case 20: return torch::bitwise_not(a);
    case 21: return torch::eye(a.size(0), a.size(1), a.dtype());
    case 22: return torch::add(a, torch::ones({1}, a.dtype()));
    case 23: return torch::mul(a, torch::ones(a.sizes(), torch::kByte));
  }
  return r;
}

torch::Tensor reads_data(const torch::Tensor& x) { return torch::zeros(x.sizes(), torch::kFloat); }
