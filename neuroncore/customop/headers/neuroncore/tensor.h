// Tensors in HBM: a format, sizes, bytes, and for each element the core that wrote it.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "accessors.h"
#include "device.h"
#include "formats.h"

namespace torch {

using c10::Scalar;
using c10::ScalarType;
using c10::TensorOptions;

class IntArrayRef {
 public:
  IntArrayRef(std::initializer_list<int64_t> sizes) : sizes_(sizes) {}
  IntArrayRef(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}
  int64_t operator[](size_t axis) const { return sizes_.at(axis); }
  size_t size() const { return sizes_.size(); }
  bool empty() const { return sizes_.empty(); }
  std::vector<int64_t>::const_iterator begin() const { return sizes_.begin(); }
  std::vector<int64_t>::const_iterator end() const { return sizes_.end(); }
  std::vector<int64_t> vec() const { return sizes_; }
  friend bool operator==(const IntArrayRef& a, const IntArrayRef& b) {
    return a.sizes_ == b.sizes_;
  }
  friend bool operator!=(const IntArrayRef& a, const IntArrayRef& b) { return !(a == b); }

 private:
  std::vector<int64_t> sizes_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::vector<int64_t> sizes, ScalarType type)
      : storage_(std::make_shared<neuroncore::Storage>(sizes, type)) {}

  neuroncore::Storage& storage() const { return *storage_; }
  bool is(const Tensor& other) const { return storage_ == other.storage_; }
  bool defined() const { return static_cast<bool>(storage_); }

  int64_t numel() const { return storage_->elements; }
  int64_t dim() const { return storage_->sizes.size(); }
  IntArrayRef sizes() const { return IntArrayRef(storage_->sizes); }
  int64_t size(int64_t axis) const { return storage_->sizes.at(axis < 0 ? axis + dim() : axis); }
  ScalarType scalar_type() const { return storage_->type; }
  ScalarType dtype() const { return storage_->type; }

  template <typename T, size_t N>
  TensorAccessor<T, N, true> accessor(neuroncore::Place at = NEURONCORE_HERE) const& {
    return neuroncore::element_accessor<T, N, true>(*storage_, at);
  }
  template <typename T, size_t N>
  TensorAccessor<T, N, false> accessor(neuroncore::Place at = NEURONCORE_HERE) & {
    return neuroncore::element_accessor<T, N, false>(*storage_, at);
  }
  template <typename T>
  TensorReadStreamAccessor<T> read_stream_accessor(neuroncore::Place at = NEURONCORE_HERE) const& {
    return TensorReadStreamAccessor<T>(storage_, at);
  }
  template <typename T>
  TensorWriteStreamAccessor<T> write_stream_accessor(neuroncore::Place at = NEURONCORE_HERE) & {
    return TensorWriteStreamAccessor<T>(storage_, at);
  }
  TensorTcmAccessor<true> tcm_accessor(neuroncore::Place at = NEURONCORE_HERE) const& {
    neuroncore::only_with_data("a TCM accessor", at);
    return TensorTcmAccessor<true>(storage_);
  }
  TensorTcmAccessor<false> tcm_accessor(neuroncore::Place at = NEURONCORE_HERE) & {
    neuroncore::only_with_data("a TCM accessor", at);
    return TensorTcmAccessor<false>(storage_);
  }

  CoherencyEnforcer::Policy get_accessor_coherence_policy() const { return storage_->policy; }
  void set_accessor_coherence_policy(CoherencyEnforcer::Policy policy) const {
    storage_->policy = policy;
  }

  const Tensor& fill_(const Scalar& value) const {
    if (!neuroncore::device().on_host) {
      c10::with_type(storage_->type, [&](auto zero) {
        using T = decltype(zero);
        for (int64_t i = 0; i < numel(); i++) storage_->at<T>(i) = T(value.to<double>());
      });
      storage_->mark_written(0, numel(), NEURONCORE_HERE);
    }
    return *this;
  }

 private:
  std::shared_ptr<neuroncore::Storage> storage_;
};

inline Tensor empty(IntArrayRef size, TensorOptions options) {
  return Tensor(size.vec(), options.type);
}
inline Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options) {
  return empty(size, options).fill_(value);
}
inline Tensor zeros(IntArrayRef size, TensorOptions options) { return full(size, 0, options); }
inline Tensor ones(IntArrayRef size, TensorOptions options) { return full(size, 1, options); }
inline Tensor eye(int64_t n, int64_t m, TensorOptions options) {
  Tensor result = zeros({n, m}, options);
  if (!neuroncore::device().on_host) {
    c10::with_type(options.type, [&](auto zero) {
      for (int64_t i = 0; i < n && i < m; i++) {
        result.storage().at<decltype(zero)>(i * m + i) = decltype(zero)(1);
      }
    });
  }
  return result;
}

constexpr ScalarType kByte = c10::kByte, kChar = c10::kChar, kShort = c10::kShort,
                     kInt = c10::kInt, kHalf = c10::kHalf, kFloat = c10::kFloat,
                     kBFloat16 = c10::kBFloat16;

}  // namespace torch

namespace c10 {
using IntArrayRef = torch::IntArrayRef;
}
namespace at {
using torch::Tensor;
}
