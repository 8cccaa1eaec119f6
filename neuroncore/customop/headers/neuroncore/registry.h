// The operators of a library: their names, their shape functions, and the names of their kernels.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensor.h"

namespace neuroncore {

// An argument from Python.
struct Argument {
  char kind = 'T';  // T a tensor, D a double, I an integer
  torch::Tensor tensor;
  double number = 0;
  int64_t integer = 0;
};

template <typename T> struct Parameter {
  static_assert(sizeof(T) == 0, "a parameter is a torch::Tensor, a torch::Scalar, a double or int64_t");
};
template <> struct Parameter<torch::Tensor> {
  static constexpr char kind = 'T';
  static torch::Tensor of(const Argument& argument) { return argument.tensor; }
};
template <> struct Parameter<torch::Scalar> {
  static constexpr char kind = 'S';
  static torch::Scalar of(const Argument& argument) {
    return argument.kind == 'I' ? torch::Scalar(argument.integer) : torch::Scalar(argument.number);
  }
};
template <> struct Parameter<double> {
  static constexpr char kind = 'D';
  static double of(const Argument& argument) { return argument.number; }
};
template <> struct Parameter<int64_t> {
  static constexpr char kind = 'I';
  static int64_t of(const Argument& argument) { return argument.integer; }
};

struct Function {
  std::string kinds;  // of the parameters, in order
  virtual torch::Tensor call(const std::vector<Argument>& arguments) const = 0;
  virtual ~Function() = default;
};

template <typename... A> struct FunctionOf : Function {
  torch::Tensor (*pointer)(A...);

  explicit FunctionOf(torch::Tensor (*function)(A...)) : pointer(function) {
    kinds = std::string{Parameter<std::decay_t<A>>::kind...};
  }
  torch::Tensor call(const std::vector<Argument>& arguments) const override {
    return call(arguments, std::index_sequence_for<A...>());
  }
  template <size_t... I>
  torch::Tensor call(const std::vector<Argument>& arguments, std::index_sequence<I...>) const {
    (void)arguments;  // unused if the function has no parameters
    return pointer(Parameter<std::decay_t<A>>::of(arguments[I])...);
  }
};

template <typename... A> const Function* function(torch::Tensor (*pointer)(A...)) {
  return new FunctionOf<A...>(pointer);
}

struct Operator {
  std::string library, name;
  const Function* shape;
  std::string kernel;
};

inline std::vector<Operator>& operators() {
  static std::vector<Operator> every;
  return every;
}

class Registrar {
 public:
  static bool run(const char* library, void (*body)(Registrar&)) {
    Registrar m(library);
    body(m);
    return true;
  }
  template <typename... A>
  void def(const char* name, torch::Tensor (*shape)(A...), const char* kernel) {
    operators().push_back(Operator{library_, name, function(shape), kernel});
  }

 private:
  explicit Registrar(const char* library) : library_(library) {}
  std::string library_;
};

}  // namespace neuroncore
