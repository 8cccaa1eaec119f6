// The emulated cores of GpSimd, which run one after the other in one process: their work and TCM, and
// faults. A fault ends the run: the device would refuse the action, or its result is undefined.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace neuroncore {

struct Place {
  const char* file;
  int line;
};

constexpr Place place(const char* file, int line) { return Place{file, line}; }

// The place of a call, as a default argument. (In braces, gcc would use the declaration's place.)
#define NEURONCORE_HERE ::neuroncore::place(__builtin_FILE(), __builtin_LINE())

struct Counts {
  uint64_t touches = 0;         // accesses to single elements in HBM
  uint64_t tcm_elements = 0;    // copied between HBM and TCM, in either direction
  uint64_t stream_elements = 0; // through streams
};

struct Finding {
  std::string code;
  uint32_t core;
  Place place;
  std::string text;
};

// A piece of a core's TCM, between two guards that nothing may write.
struct Block {
  static constexpr size_t guard = 64;
  std::vector<uint8_t> bytes;
  size_t size;

  explicit Block(size_t n) : bytes(n + 2 * guard, 0xA5), size(n) {}
  uint8_t* data() { return bytes.data() + guard; }
  bool holds(const void* pointer) const {
    const uint8_t* first = bytes.data() + guard;
    return pointer >= first && pointer < first + size;
  }
  bool guards_are_whole() const {
    for (size_t i = 0; i < guard; i++) {
      if (bytes[i] != 0xA5 || bytes[bytes.size() - 1 - i] != 0xA5) return false;
    }
    return true;
  }
};

struct Device {
  uint32_t cores = NEURONCORE_CORES;
  uint32_t core = 0;            // the core that is running
  bool on_host = true;          // a shape function is running
  bool took_destination = false;
  size_t tcm_used = 0;
  std::vector<Block*> blocks;   // of the core that is running
  std::vector<Counts> counts;
  std::vector<Finding> findings;

  Counts& count() { return counts[core]; }
};

inline Device& device() {
  static Device the_device;
  return the_device;
}

inline std::string format(const char* pattern, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, pattern, arguments);
  return text;
}

inline std::string say(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  std::string text = format(pattern, arguments);
  va_end(arguments);
  return text;
}

// Records a finding; the run continues.
inline void note(const char* code, Place place, const std::string& text) {
  device().findings.push_back(Finding{code, device().core, place, text});
}

[[noreturn]] void leave_with_fault(const char* code, Place place, const std::string& text);

// Ends the run, because its further results would be undefined.
[[noreturn]] inline void fault(const char* code, Place place, const std::string& text) {
  leave_with_fault(code, place, text);
}

inline void only_single_core(const char* accessor, Place place) {
  if (device().cores > 1) {
    fault("MULTICORE", place,
          say("%s in a library of several cores: use TCM accessors there", accessor));
  }
}

inline void only_with_data(const char* accessor, Place place) {
  if (device().on_host) {
    fault("SHAPE_FUNCTION", place,
          say("%s in a shape function: its tensors have shapes, but no data", accessor));
  }
}

inline void* allocate_tcm(size_t size) {
  Device& one = device();
  if (one.tcm_used + size > NEURONCORE_TCM_BYTES) return nullptr;
  one.tcm_used += size;
  one.blocks.push_back(new Block(size));
  return one.blocks.back()->data();
}

inline void check_guards(Place place) {
  for (Block* block : device().blocks) {
    if (!block->guards_are_whole()) {
      fault("OUT_OF_BOUNDS", place,
            say("a TCM buffer of %zu bytes was written beyond its end or before its start",
                block->size));
    }
  }
}

inline void free_tcm(void* pointer, Place place) {
  if (pointer == nullptr) return;
  check_guards(place);
  Device& one = device();
  for (size_t i = 0; i < one.blocks.size(); i++) {
    if (one.blocks[i]->data() == pointer) {
      one.tcm_used -= one.blocks[i]->size;
      delete one.blocks[i];
      one.blocks.erase(one.blocks.begin() + i);
      return;
    }
  }
  fault("TCM_FREE", place, "tcm_free of a pointer that is not from tcm_malloc, or that is already free");
}

// Checks that a copy of `size` bytes stays inside the TCM buffer of its pointer. A pointer to other
// memory, such as an array on the stack, is not checked.
inline void check_tcm_copy(const void* pointer, size_t size, Place place) {
  for (Block* block : device().blocks) {
    if (!block->holds(pointer)) continue;
    size_t room = block->data() + block->size - static_cast<const uint8_t*>(pointer);
    if (size > room) {
      fault("OUT_OF_BOUNDS", place,
            say("a copy of %zu bytes, but only %zu bytes of its TCM buffer are left", size, room));
    }
  }
}

// Ends the work of a core when its function returns: reports buffers that it has not freed.
inline void end_core() {
  Device& one = device();
  check_guards(Place{"", 0});
  if (!one.blocks.empty()) {
    note("TCM_LEAK", Place{"", 0},
         say("%zu bytes of TCM in %zu buffers are not freed", one.tcm_used, one.blocks.size()));
  }
  for (Block* block : one.blocks) delete block;
  one.blocks.clear();
  one.tcm_used = 0;
}

}  // namespace neuroncore
