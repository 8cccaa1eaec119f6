// The program of a library: `list` prints its operators; `run NAME REQUEST RESPONSE ORDER` calls
// one. REQUEST and RESPONSE are files of lines in these forms; the bytes of tensors follow "data".
//
//   request    "memory BYTES", then per argument "T format rank sizes...", "D 1.5", "I 3"
//   response   "result format rank sizes...", "counts core touches tcm streams", "unwritten n",
//              "finding code core line file\ttext" or "fault ..." of the same form
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "registry.h"

namespace neuroncore {

struct Kernel {
  const char* name;
  const Function* function;
};

std::vector<Kernel> kernels();  // in the generated source

struct Call {
  const Operator* op = nullptr;
  const Function* kernel = nullptr;
  std::vector<Argument> arguments;
  std::vector<uint32_t> order;
  torch::Tensor destination;
  const char* response = nullptr;
};

inline Call& call() {
  static Call the_call;
  return the_call;
}

inline void write_finding(FILE* file, const char* kind, const Finding& one) {
  std::fprintf(file, "%s %s %u %d %s\t%s\n", kind, one.code.c_str(), one.core, one.place.line,
               one.place.file, one.text.c_str());
}

inline void write_notes(FILE* file) {
  Device& one = device();
  for (size_t i = 0; i < one.counts.size(); i++) {
    const Counts& count = one.counts[i];
    std::fprintf(file, "counts %zu %llu %llu %llu\n", i,
                 static_cast<unsigned long long>(count.touches),
                 static_cast<unsigned long long>(count.tcm_elements),
                 static_cast<unsigned long long>(count.stream_elements));
  }
  for (const Finding& finding : one.findings) write_finding(file, "finding", finding);
}

[[noreturn]] inline void leave_with_fault(const char* code, Place place, const std::string& text) {
  FILE* file = std::fopen(call().response, "wb");
  write_notes(file);
  write_finding(file, "fault", Finding{code, device().core, place, text});
  std::fclose(file);
  std::fflush(stdout);
  _exit(0);
}

inline torch::Tensor read_tensor(FILE* file) {
  int type, rank;
  if (std::fscanf(file, "%d %d", &type, &rank) != 2) std::abort();
  std::vector<int64_t> sizes(rank);
  for (int64_t& size : sizes) {
    long long number;
    if (std::fscanf(file, "%lld", &number) != 1) std::abort();
    size = number;
  }
  return torch::Tensor(sizes, static_cast<c10::ScalarType>(type));
}

inline void read_request(const char* path) {
  Call& one = call();
  FILE* file = std::fopen(path, "rb");
  unsigned long long memory;
  if (std::fscanf(file, "memory %llu", &memory) != 1) std::abort();
  rlimit limit{memory, memory};
  setrlimit(RLIMIT_AS, &limit);
  char kind[8];
  while (std::fscanf(file, "%7s", kind) == 1 && std::string(kind) != "data") {
    Argument argument;
    argument.kind = kind[0];
    long long integer = 0;
    if (kind[0] == 'T') argument.tensor = read_tensor(file);
    if (kind[0] == 'D' && std::fscanf(file, "%lf", &argument.number) != 1) std::abort();
    if (kind[0] == 'I' && std::fscanf(file, "%lld", &integer) != 1) std::abort();
    argument.integer = integer;
    one.arguments.push_back(argument);
  }
  std::fgetc(file);  // the end of the line
  for (Argument& argument : one.arguments) {
    if (argument.kind != 'T') continue;
    Storage& storage = argument.tensor.storage();
    size_t size = storage.bytes.size();
    if (size && std::fread(storage.bytes.data(), 1, size, file) != size) std::abort();
  }
  std::fclose(file);
}

// Returns the result's shape and format, which the shape function computes from tensors without data.
inline torch::Tensor shape_of_result() {
  device().on_host = true;
  std::vector<Argument> arguments = call().arguments;
  for (Argument& argument : arguments) {
    if (argument.kind == 'T') {
      argument.tensor = torch::Tensor(argument.tensor.sizes().vec(), argument.tensor.dtype());
    }
  }
  torch::Tensor result = call().op->shape->call(arguments);
  device().on_host = false;
  return torch::Tensor(result.sizes().vec(), result.dtype());
}

inline void check_against_shape(const torch::Tensor& result) {
  const torch::Tensor& shape = call().destination;
  if (result.sizes() != shape.sizes() || result.dtype() != shape.dtype()) {
    fault("SHAPE_MISMATCH", Place{"", 0},
          "the kernel returns another shape or format than its shape function");
  }
}

// Runs the cores one after the other; only core 0 prints, as on the device.
inline torch::Tensor run_cores() {
  Device& one = device();
  one.counts.resize(one.cores);
  int printed = dup(1);
  torch::Tensor result;
  for (uint32_t core : call().order) {
    one.core = core;
    if (core != 0 && !std::freopen("/dev/null", "w", stdout)) std::abort();
    result = call().kernel->call(call().arguments);
    end_core();
    std::fflush(stdout);
    dup2(printed, 1);
  }
  one.core = 0;
  if (one.took_destination) return call().destination;
  if (one.cores > 1) {
    fault("MULTICORE", Place{"", 0},
          "a kernel of several cores returns a new tensor: it must write to get_dst_tensor()");
  }
  check_against_shape(result);
  return result;
}

inline void write_response(const torch::Tensor& result) {
  Storage& storage = result.storage();
  FILE* file = std::fopen(call().response, "wb");
  write_notes(file);
  long long unwritten = 0;
  for (uint8_t writer : storage.writer) unwritten += writer == 0;
  std::fprintf(file, "unwritten %lld\nresult %d %zu", unwritten, static_cast<int>(storage.type),
               storage.sizes.size());
  for (int64_t size : storage.sizes) std::fprintf(file, " %lld", static_cast<long long>(size));
  std::fprintf(file, "\ndata\n");
  std::fwrite(storage.bytes.data(), 1, storage.bytes.size(), file);
  std::fclose(file);
}

inline int list() {
  std::printf("neuroncore %u\n", device().cores);
  for (const Operator& op : operators()) {
    const Function* found = nullptr;
    for (const Kernel& kernel : kernels()) {
      if (op.kernel == kernel.name) found = kernel.function;
    }
    std::printf("%s %s %s %s %s.\n", op.library.c_str(), op.name.c_str(), op.kernel.c_str(),
                found ? (found->kinds + ".").c_str() : "?", op.shape->kinds.c_str());
  }
  return 0;
}

inline int run(char** words) {
  Call& one = call();
  one.response = words[2];
  for (const Operator& op : operators()) {
    if (op.name == words[0]) one.op = &op;
  }
  for (const Kernel& kernel : kernels()) {
    if (one.op && one.op->kernel == kernel.name) one.kernel = kernel.function;
  }
  if (!one.op || !one.kernel) std::abort();
  device().on_host = false;
  read_request(words[1]);
  for (const char* core = words[3]; *core; core++) one.order.push_back(*core - '0');
  one.destination = shape_of_result();
  write_response(run_cores());
  return 0;
}

}  // namespace neuroncore

torch::Tensor get_dst_tensor() {
  neuroncore::device().took_destination = true;
  return neuroncore::call().destination;
}

int main(int count, char** words) {
  if (count == 6 && std::string(words[1]) == "run") return neuroncore::run(words + 2);
  return neuroncore::list();
}
