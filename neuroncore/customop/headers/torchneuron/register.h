// NEURON_LIBRARY(name, m) { m.def("operator", &shape_function, "kernel_function"); ... }
#pragma once

#include "../neuroncore/registry.h"

#define NEURON_LIBRARY(library, m)                                                              \
  static void neuroncore_register_##library(neuroncore::Registrar& m);                          \
  static const bool neuroncore_registered_##library =                                           \
      neuroncore::Registrar::run(#library, neuroncore_register_##library);                      \
  static void neuroncore_register_##library(neuroncore::Registrar& m)
