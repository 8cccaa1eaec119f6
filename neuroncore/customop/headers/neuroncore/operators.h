// Operators of whole tensors, element by element. Shapes must be equal: nothing is broadcast.
#pragma once

#include <cmath>

#include "tensor.h"

namespace neuroncore {

using c10::Scalar;
using torch::Tensor;

inline void check_result(const Tensor& result, const Tensor& self, Place at) {
  if (result.sizes() != self.sizes() || result.scalar_type() != self.scalar_type()) {
    fault("SHAPE_MISMATCH", at, "the result has another shape or format than the operand");
  }
}

inline void check_pair(const Tensor& a, const Tensor& b, Place at) {
  if (a.sizes() != b.sizes()) {
    fault("SHAPE_MISMATCH", at, "operands of different shapes: nothing is broadcast");
  }
  if (a.scalar_type() != b.scalar_type()) {
    fault("DTYPE_RULE", at, say("operands of %s and %s", c10::name_of(a.scalar_type()),
                                c10::name_of(b.scalar_type())));
  }
}

inline void check_integer(const Tensor& self, Place at) {
  if (!c10::is_integer(self.scalar_type())) {
    fault("DTYPE_RULE", at, say("a bitwise operator on a tensor of %s",
                                c10::name_of(self.scalar_type())));
  }
}

inline Tensor like(const Tensor& self) { return Tensor(self.sizes().vec(), self.scalar_type()); }

// result[i] = f(i, zero), where `zero` is 0 in the C++ type of the format. In a shape function
// nothing is computed.
template <typename F> Tensor& each(Tensor& result, const Tensor& self, Place at, F f) {
  check_result(result, self, at);
  if (device().on_host) return result;
  c10::with_type(self.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < self.numel(); i++) result.storage().at<T>(i) = f(i, zero);
  });
  result.storage().mark_written(0, result.numel(), at);
  return result;
}

template <typename T> double value(const Tensor& tensor, int64_t i) {
  return static_cast<double>(tensor.storage().at<T>(i));
}

}  // namespace neuroncore

namespace torch {

#define NEURONCORE_UNARY(name, expression)                                                      \
  inline Tensor& name##_out(Tensor& result, const Tensor& self,                                 \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      float x = static_cast<float>(neuroncore::value<T>(self, i));                              \
      return static_cast<T>(expression);                                                        \
    });                                                                                         \
  }                                                                                             \
  inline Tensor name(const Tensor& self, neuroncore::Place at = NEURONCORE_HERE) {              \
    Tensor result = neuroncore::like(self);                                                     \
    return name##_out(result, self, at);                                                        \
  }

NEURONCORE_UNARY(abs, std::fabs(x))
NEURONCORE_UNARY(ceil, std::ceil(x))
NEURONCORE_UNARY(floor, std::floor(x))
NEURONCORE_UNARY(sin, std::sin(x))
NEURONCORE_UNARY(cos, std::cos(x))
NEURONCORE_UNARY(tan, std::tan(x))
NEURONCORE_UNARY(log, std::log(x))
NEURONCORE_UNARY(log2, std::log2(x))
NEURONCORE_UNARY(log10, std::log10(x))
NEURONCORE_UNARY(exp, std::exp(x))
#undef NEURONCORE_UNARY

// An operator that returns a new tensor. Its operands are a tensor, and a tensor or a number.
#define NEURONCORE_MAKING(name)                                                                 \
  template <typename Other>                                                                     \
  inline Tensor name(const Tensor& self, const Other& other,                                    \
                     neuroncore::Place at = NEURONCORE_HERE) {                                  \
    Tensor result = neuroncore::like(self);                                                     \
    return name##_out(result, self, other, at);                                                 \
  }

// a and b are the operands, as doubles: sums, products and quotients of floats are rounded once.
#define NEURONCORE_BINARY(name, expression)                                                     \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Tensor& other,            \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    neuroncore::check_pair(self, other, at);                                                    \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      double a = neuroncore::value<T>(self, i), b = neuroncore::value<T>(other, i);             \
      return static_cast<T>(expression);                                                        \
    });                                                                                         \
  }                                                                                             \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Scalar& other,            \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      double a = neuroncore::value<T>(self, i), b = other.toDouble();                           \
      return static_cast<T>(expression);                                                        \
    });                                                                                         \
  }                                                                                             \
  NEURONCORE_MAKING(name)

NEURONCORE_BINARY(mul, a * b)
NEURONCORE_BINARY(div, a / b)
NEURONCORE_BINARY(pow, std::pow(a, b))
#undef NEURONCORE_BINARY

inline Tensor& pow_out(Tensor& result, const Scalar& self, const Tensor& exponent,
                       neuroncore::Place at = NEURONCORE_HERE) {
  return neuroncore::each(result, exponent, at, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    return static_cast<T>(std::pow(self.toDouble(), neuroncore::value<T>(exponent, i)));
  });
}
inline Tensor pow(const Scalar& self, const Tensor& exponent,
                  neuroncore::Place at = NEURONCORE_HERE) {
  Tensor result = neuroncore::like(exponent);
  return pow_out(result, self, exponent, at);
}

// self + or - alpha * other
#define NEURONCORE_SUM(name, sign)                                                              \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Tensor& other,            \
                            const Scalar& alpha = 1, neuroncore::Place at = NEURONCORE_HERE) {  \
    neuroncore::check_pair(self, other, at);                                                    \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      double b = neuroncore::value<T>(other, i) * alpha.toDouble();                             \
      return static_cast<T>(neuroncore::value<T>(self, i) sign b);                              \
    });                                                                                         \
  }                                                                                             \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Scalar& other,            \
                            const Scalar& alpha = 1, neuroncore::Place at = NEURONCORE_HERE) {  \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      double b = other.toDouble() * alpha.toDouble();                                           \
      return static_cast<T>(neuroncore::value<T>(self, i) sign b);                              \
    });                                                                                         \
  }                                                                                             \
  template <typename Other>                                                                     \
  inline Tensor name(const Tensor& self, const Other& other, const Scalar& alpha = 1,           \
                     neuroncore::Place at = NEURONCORE_HERE) {                                  \
    Tensor result = neuroncore::like(self);                                                     \
    return name##_out(result, self, other, alpha, at);                                          \
  }

NEURONCORE_SUM(add, +)
NEURONCORE_SUM(sub, -)
#undef NEURONCORE_SUM

inline Tensor& clamp_out(Tensor& result, const Tensor& self, const Scalar& low, const Scalar& high,
                         neuroncore::Place at = NEURONCORE_HERE) {
  return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    double x = neuroncore::value<T>(self, i);
    double above = x < low.toDouble() ? low.toDouble() : x;
    return static_cast<T>(above > high.toDouble() ? high.toDouble() : above);
  });
}
inline Tensor clamp(const Tensor& self, const Scalar& low, const Scalar& high,
                    neuroncore::Place at = NEURONCORE_HERE) {
  Tensor result = neuroncore::like(self);
  return clamp_out(result, self, low, high, at);
}

// Bitwise operators of integers. A scalar is first converted to the tensor's format.
#define NEURONCORE_BITWISE(name, sign)                                                          \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Tensor& other,            \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    neuroncore::check_integer(self, at);                                                        \
    neuroncore::check_pair(self, other, at);                                                    \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      int32_t a = static_cast<int32_t>(neuroncore::value<T>(self, i));                          \
      return static_cast<T>(a sign static_cast<int32_t>(neuroncore::value<T>(other, i)));       \
    });                                                                                         \
  }                                                                                             \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const Scalar& other,            \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    neuroncore::check_integer(self, at);                                                        \
    return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {                       \
      using T = decltype(zero);                                                                 \
      int32_t a = static_cast<int32_t>(neuroncore::value<T>(self, i));                          \
      return static_cast<T>(a sign static_cast<int32_t>(other.toDouble()));                     \
    });                                                                                         \
  }                                                                                             \
  inline Tensor& name##_out(Tensor& result, const Scalar& self, const Tensor& other,            \
                            neuroncore::Place at = NEURONCORE_HERE) {                           \
    return name##_out(result, other, self, at);                                                 \
  }                                                                                             \
  NEURONCORE_MAKING(name)                                                                       \
  inline Tensor name(const Scalar& self, const Tensor& other,                                   \
                     neuroncore::Place at = NEURONCORE_HERE) {                                  \
    Tensor result = neuroncore::like(other);                                                    \
    return name##_out(result, other, self, at);                                                 \
  }

NEURONCORE_BITWISE(bitwise_and, &)
NEURONCORE_BITWISE(bitwise_or, |)
#undef NEURONCORE_BITWISE
#undef NEURONCORE_MAKING

inline Tensor& bitwise_not_out(Tensor& result, const Tensor& self,
                               neuroncore::Place at = NEURONCORE_HERE) {
  neuroncore::check_integer(self, at);
  return neuroncore::each(result, self, at, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    return static_cast<T>(~static_cast<int32_t>(neuroncore::value<T>(self, i)));
  });
}
inline Tensor bitwise_not(const Tensor& self, neuroncore::Place at = NEURONCORE_HERE) {
  Tensor result = neuroncore::like(self);
  return bitwise_not_out(result, self, at);
}

}  // namespace torch
