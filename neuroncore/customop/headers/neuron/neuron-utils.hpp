// Which of GpSimd's cores runs.
#pragma once

#include <cstdint>

#include "../neuroncore/device.h"

inline uint32_t get_cpu_id() { return neuroncore::device().core; }
inline uint32_t get_cpu_count() { return neuroncore::device().cores; }
