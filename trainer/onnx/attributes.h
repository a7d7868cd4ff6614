// The attributes of an ONNX node while it is read.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// Remembers which attributes were read: one that no reader knows would change the result. Not
// thread-safe.
class Attributes {
 public:
  // `node` must outlive this object.
  explicit Attributes(const ::onnx::NodeProto& node) : node_(node) {}

  // nullptr: the node lacks the attribute.
  const ::onnx::AttributeProto* Find(const char* name) const;
  int64_t Int(const char* name, int64_t fallback) const;
  double Float(const char* name, double fallback) const;
  std::string Text(const char* name, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* name, std::vector<int64_t> fallback) const;
  // UNIMPLEMENTED: the attribute is present and has another value.
  Status Only(const char* name, int64_t value) const;

  // UNIMPLEMENTED: the node has attributes that were not read.
  Status AllRead() const;

 private:
  const ::onnx::NodeProto& node_;
  mutable std::set<std::string> read_;
};

}  // namespace tandem::onnx
