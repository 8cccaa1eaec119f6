// Number formats: the 16-bit floats, and the C++ type of each format.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace c10 {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct BFloat16 {
  uint16_t x = 0;
  BFloat16() = default;
  BFloat16(float value) {  // to nearest, ties to even
    uint32_t bits = bits_of(value);
    bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    x = nan ? 0x7FC0 : static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  operator float() const { return float_of(static_cast<uint32_t>(x) << 16); }
};

struct Half {
  uint16_t x = 0;
  Half() = default;
  Half(float value) {  // to nearest, ties to even
    uint32_t bits = bits_of(value);
    uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    float magnitude = float_of(bits & 0x7FFFFFFF);
    if (std::isnan(value)) {
      x = sign | 0x7E00;
    } else if (magnitude >= 65520.0f) {
      x = sign | 0x7C00;
    } else if (magnitude < 6.103515625e-05f) {  // subnormal: steps of 2^-24
      x = sign | static_cast<uint16_t>(std::nearbyintf(magnitude * 16777216.0f));
    } else {
      uint32_t rounded = bits_of(magnitude) + 0xFFF + ((bits >> 13) & 1);
      x = sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
    }
  }
  operator float() const {
    float sign = x & 0x8000 ? -1.0f : 1.0f;
    uint32_t exponent = x >> 10 & 31, fraction = x & 0x3FF;
    if (exponent == 31) return fraction ? float_of(0x7FC00000) : sign * INFINITY;
    if (exponent == 0) return sign * fraction / 16777216.0f;
    return sign * float_of((exponent + 112) << 23 | fraction << 13);
  }
};

enum class ScalarType : int8_t { Byte, Char, Short, Int, Half, Float, BFloat16 };

constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char,
                     kShort = ScalarType::Short, kInt = ScalarType::Int, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kBFloat16 = ScalarType::BFloat16;

constexpr const char* format_names[] = {"uint8", "int8", "int16", "int32",
                                        "float16", "float32", "bfloat16"};
constexpr size_t format_bytes[] = {1, 1, 2, 4, 2, 4, 2};

inline const char* name_of(ScalarType type) { return format_names[static_cast<int>(type)]; }
inline size_t bytes_of(ScalarType type) { return format_bytes[static_cast<int>(type)]; }
inline bool is_integer(ScalarType type) { return type <= ScalarType::Int; }

template <typename T> struct FormatOf;
template <> struct FormatOf<uint8_t> { static constexpr ScalarType value = ScalarType::Byte; };
template <> struct FormatOf<int8_t> { static constexpr ScalarType value = ScalarType::Char; };
template <> struct FormatOf<char> { static constexpr ScalarType value = ScalarType::Char; };
template <> struct FormatOf<int16_t> { static constexpr ScalarType value = ScalarType::Short; };
template <> struct FormatOf<int32_t> { static constexpr ScalarType value = ScalarType::Int; };
template <> struct FormatOf<Half> { static constexpr ScalarType value = ScalarType::Half; };
template <> struct FormatOf<float> { static constexpr ScalarType value = ScalarType::Float; };
template <> struct FormatOf<BFloat16> { static constexpr ScalarType value = ScalarType::BFloat16; };

// Calls f(T()), where T is the C++ type of a format.
template <typename F> void with_type(ScalarType type, F f) {
  switch (type) {
    case ScalarType::Byte: return f(uint8_t());
    case ScalarType::Char: return f(int8_t());
    case ScalarType::Short: return f(int16_t());
    case ScalarType::Int: return f(int32_t());
    case ScalarType::Half: return f(Half());
    case ScalarType::Float: return f(float());
    case ScalarType::BFloat16: return f(BFloat16());
  }
}

// A number. Python passes doubles and integers; both are stored as double.
class Scalar {
 public:
  template <typename T> Scalar(T value) : value_(static_cast<double>(value)) {}
  template <typename T> T to() const { return static_cast<T>(value_); }
  double toDouble() const { return value_; }

 private:
  double value_;
};

struct TensorOptions {
  ScalarType type;
  TensorOptions(ScalarType format) : type(format) {}
  TensorOptions dtype(ScalarType format) const { return TensorOptions(format); }
};

}  // namespace c10
