// Descriptors of the stand-in for cuDNN's graphs, and their text form. Plans are stored as text.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_on_host/cudnn_graph.h"

namespace tandem::cuda_on_host {

struct Descriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<std::byte> bytes;
  };
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  std::vector<std::unique_ptr<Descriptor>> owned;  // descriptors that were parsed from a text

  bool has(int name) const { return attributes.contains(name); }
  template <typename T>
  std::vector<T> all(int name) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) return {};
    std::vector<T> values(static_cast<size_t>(at->second.count));
    std::memcpy(values.data(), at->second.bytes.data(), at->second.bytes.size());
    return values;
  }
  template <typename T>
  T get(int name) const {
    const auto at = attributes.find(name);
    T value{};
    if (at != attributes.end()) std::memcpy(&value, at->second.bytes.data(), sizeof(T));
    return value;
  }
  const Descriptor& part(int name) const { return *get<Descriptor*>(name); }
};

// Returns the size of one value in bytes.
inline size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:  // enumerations and f32 have four bytes
      return 4;
  }
}

// The text includes all descriptors to which `d` refers, except handles.
std::string ToText(const Descriptor& d);
// Parses the text form of a descriptor. Returns nullptr if `text` is invalid.
std::unique_ptr<Descriptor> FromText(std::string_view text);

}  // namespace tandem::cuda_on_host
