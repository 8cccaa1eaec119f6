// Storage in HBM, and three ways to access it: by element, as a stream, and by copies to TCM.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "device.h"
#include "formats.h"

namespace torch {

class CoherencyEnforcer {
 public:
  enum Policy { COHERENT, INCOHERENT_VERBOSE, INCOHERENT_QUIET };
};

}  // namespace torch

namespace neuroncore {

struct Storage {
  std::vector<int64_t> sizes;
  c10::ScalarType type;
  int64_t elements = 1;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> writer;  // for each element: 0 if no core wrote it, else 1 + the core's number
  torch::CoherencyEnforcer::Policy policy = torch::CoherencyEnforcer::COHERENT;
  int read_streams = 0, write_streams = 0;

  // New bytes are 0xA5 and have no writer: after `empty` the device has arbitrary data, too.
  Storage(std::vector<int64_t> shape, c10::ScalarType format) : sizes(shape), type(format) {
    for (int64_t size : sizes) elements *= size;
    if (device().on_host) return;
    bytes.assign(elements * c10::bytes_of(type), 0xA5);
    writer.assign(elements, 0);
  }

  template <typename T> T& at(int64_t index) { return reinterpret_cast<T*>(bytes.data())[index]; }

  // The order of cores is undefined, so two cores must not write to the same element.
  void mark_written(int64_t first, int64_t count, Place place) {
    uint8_t mine = static_cast<uint8_t>(device().core + 1);
    for (int64_t i = first; i < first + count; i++) {
      if (writer[i] != 0 && writer[i] != mine) {
        fault("RACE", place,
              say("cores %d and %u both write element %lld in undefined order",
                  writer[i] - 1, device().core, static_cast<long long>(i)));
      }
      writer[i] = mine;
    }
  }

  template <typename T> void check_type(const char* accessor, Place place) const {
    if (c10::FormatOf<T>::value != type) {
      fault("DTYPE_RULE", place,
            say("%s of %s on a tensor of %s", accessor, c10::name_of(c10::FormatOf<T>::value),
                c10::name_of(type)));
    }
  }

  void check_coherent(bool coherent, const char* what, Place place) const {
    using torch::CoherencyEnforcer;
    if (coherent || policy == CoherencyEnforcer::INCOHERENT_QUIET) return;
    if (policy == CoherencyEnforcer::COHERENT) fault("COHERENCE", place, what);
    note("COHERENCE", place, what);
  }
};

// Returns the position that an index along an axis selects. The axis is number `axes` from the end,
// counted from 1, and `first` is the position along the axes before it. Refuses an index out of bounds.
inline int64_t inside(Storage& storage, size_t axes, int64_t first, int64_t index, Place place) {
  size_t axis = storage.sizes.size() - axes;
  int64_t size = storage.sizes[axis];
  if (index < 0 || index >= size) {
    fault("OUT_OF_BOUNDS", place,
          say("index %lld of an axis of %lld elements, through the accessor that this line makes",
              static_cast<long long>(index), static_cast<long long>(size)));
  }
  return first * size + index;
}

inline int64_t touch(Storage& storage, int64_t element, bool writes, Place place) {
  device().count().touches++;
  storage.check_coherent(storage.write_streams == 0,
                         "an element is accessed while its tensor has an open write stream", place);
  if (writes) storage.mark_written(element, 1, place);
  return element;
}

}  // namespace neuroncore

namespace torch {

// acc[i][j]...: every read and write of an element accesses HBM.
template <typename T, size_t N, bool read_only> class TensorAccessor {
 public:
  TensorAccessor(neuroncore::Storage& storage, int64_t first, neuroncore::Place place)
      : storage_(storage), first_(first), place_(place) {}
  TensorAccessor<T, N - 1, read_only> operator[](int64_t index) const {
    return {storage_, neuroncore::inside(storage_, N, first_, index, place_), place_};
  }
  int64_t size(int64_t axis) const { return storage_.sizes[storage_.sizes.size() - N + axis]; }

 private:
  neuroncore::Storage& storage_;
  int64_t first_;
  neuroncore::Place place_;
};

template <typename T, bool read_only> class TensorAccessor<T, 1, read_only> {
 public:
  using Element = std::conditional_t<read_only, const T, T>;
  TensorAccessor(neuroncore::Storage& storage, int64_t first, neuroncore::Place place)
      : storage_(storage), first_(first), place_(place) {}
  Element& operator[](int64_t index) const {
    int64_t element = neuroncore::inside(storage_, 1, first_, index, place_);
    return storage_.at<T>(neuroncore::touch(storage_, element, !read_only, place_));
  }
  int64_t size(int64_t) const { return storage_.sizes.back(); }

 private:
  neuroncore::Storage& storage_;
  int64_t first_;
  neuroncore::Place place_;
};

// The common part of read and write streams: a position, and whether the stream is open. An open
// stream occupies a part of TCM. If there is no room, it is as slow as an element accessor.
template <typename T> class Stream {
 public:
  Stream(std::shared_ptr<neuroncore::Storage> storage, neuroncore::Place place)
      : storage_(std::move(storage)) {
    neuroncore::only_with_data("a stream", place);
    neuroncore::only_single_core("a stream", place);
    storage_->check_type<T>("a stream", place);
    cache_ = neuroncore::allocate_tcm(NEURONCORE_STREAM_BYTES);
  }
  Stream(const Stream&) = delete;
  Stream(Stream&& other)
      : storage_(std::move(other.storage_)), cache_(other.cache_), next_(other.next_),
        open_(other.open_) {
    other.open_ = false;
    other.cache_ = nullptr;
  }

 protected:
  int64_t advance(const char* what, neuroncore::Place place) {
    if (!open_) {
      neuroncore::fault("STREAM", place, neuroncore::say("%s a stream that is closed", what));
    }
    if (next_ >= storage_->elements) {
      neuroncore::fault("STREAM", place,
                        neuroncore::say("%s a stream past its %lld elements", what,
                                        static_cast<long long>(storage_->elements)));
    }
    neuroncore::Counts& count = neuroncore::device().count();
    (cache_ ? count.stream_elements : count.touches)++;
    return next_++;
  }
  bool end() {
    bool was_open = open_;
    open_ = false;
    neuroncore::free_tcm(cache_, NEURONCORE_HERE);
    cache_ = nullptr;
    return was_open;
  }

  std::shared_ptr<neuroncore::Storage> storage_;
  void* cache_ = nullptr;
  int64_t next_ = 0;
  bool open_ = true;
};

template <typename T> class TensorReadStreamAccessor : public Stream<T> {
 public:
  TensorReadStreamAccessor(std::shared_ptr<neuroncore::Storage> storage, neuroncore::Place place)
      : Stream<T>(std::move(storage), place) {
    this->storage_->check_coherent(this->storage_->write_streams == 0,
                                   "a read stream on a tensor that has a write stream", place);
    this->storage_->read_streams++;
  }
  TensorReadStreamAccessor(TensorReadStreamAccessor&&) = default;
  ~TensorReadStreamAccessor() { close(); }
  T read(neuroncore::Place at = NEURONCORE_HERE) {
    int64_t element = this->advance("read from", at);
    return this->storage_->template at<T>(element);
  }
  int close() {
    if (this->end()) this->storage_->read_streams--;
    return 0;
  }
};

// A write stream: its elements reach memory when it is closed.
template <typename T> class TensorWriteStreamAccessor : public Stream<T> {
 public:
  TensorWriteStreamAccessor(std::shared_ptr<neuroncore::Storage> storage, neuroncore::Place place)
      : Stream<T>(std::move(storage), place), place_(place) {
    bool alone = this->storage_->write_streams == 0 && this->storage_->read_streams == 0;
    this->storage_->check_coherent(alone, "a write stream on a tensor that has another stream", place);
    this->storage_->write_streams++;
  }
  TensorWriteStreamAccessor(TensorWriteStreamAccessor&&) = default;
  ~TensorWriteStreamAccessor() { close(); }
  void write(T value, neuroncore::Place at = NEURONCORE_HERE) {
    this->advance("write to", at);
    pending_.push_back(value);
  }
  int close() {
    if (!this->end()) return 0;
    this->storage_->write_streams--;
    for (size_t i = 0; i < pending_.size(); i++) this->storage_->template at<T>(i) = pending_[i];
    this->storage_->mark_written(0, pending_.size(), place_);
    return 0;
  }

 private:
  neuroncore::Place place_;
  std::vector<T> pending_;
};

// Copies between HBM and TCM; offsets count elements of the flat tensor.
template <bool read_only> class TensorTcmAccessor {
 public:
  explicit TensorTcmAccessor(std::shared_ptr<neuroncore::Storage> storage)
      : storage_(std::move(storage)) {}

  template <typename T>
  void tensor_to_tcm(T* tcm, size_t offset, size_t count, neuroncore::Place at = NEURONCORE_HERE) {
    check<T>("tensor_to_tcm", tcm, offset, count, at);
    std::memcpy(tcm, &storage_->at<T>(offset), count * sizeof(T));
  }
  template <typename T>
  void tcm_to_tensor(T* tcm, size_t offset, size_t count, neuroncore::Place at = NEURONCORE_HERE) {
    static_assert(!read_only, "a const tensor gives a TCM accessor that only reads");
    check<T>("tcm_to_tensor", tcm, offset, count, at);
    storage_->mark_written(offset, count, at);
    std::memcpy(&storage_->at<T>(offset), tcm, count * sizeof(T));
  }

 private:
  template <typename T>
  void check(const char* copy, T* tcm, size_t offset, size_t count, neuroncore::Place at) {
    storage_->check_type<T>(copy, at);
    size_t elements = storage_->elements;
    if (offset > elements || count > elements - offset) {
      neuroncore::fault("OUT_OF_BOUNDS", at,
                        neuroncore::say("%s of elements %zu to %zu of a tensor of %zu elements",
                                        copy, offset, offset + count, elements));
    }
    neuroncore::check_tcm_copy(tcm, count * sizeof(T), at);
    neuroncore::device().count().tcm_elements += count;
  }

  std::shared_ptr<neuroncore::Storage> storage_;
};

}  // namespace torch

namespace neuroncore {

template <typename T, size_t N, bool read_only>
torch::TensorAccessor<T, N, read_only> element_accessor(Storage& storage, Place place) {
  only_with_data("an element accessor", place);
  only_single_core("an element accessor", place);
  storage.check_type<T>("an accessor", place);
  if (storage.sizes.size() != N) {
    fault("SHAPE_MISMATCH", place,
          say("an accessor of %zu axes on a tensor of %zu axes", N, storage.sizes.size()));
  }
  return {storage, 0, place};
}

}  // namespace neuroncore
