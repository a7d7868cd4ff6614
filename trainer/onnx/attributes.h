// The attributes of an ONNX node, for the function that reads the node.
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

// Gives access to the attributes of a node and records which of them were read. AllRead rejects the
// node if an attribute was not read, because this attribute could change the result. Not
// thread-safe.
class Attributes {
 public:
  // `node` must outlive this object.
  explicit Attributes(const ::onnx::NodeProto& node) : node_(node) {}

  // Returns the attribute `name`; nullptr: the node lacks this attribute. The next four methods
  // return the value of the attribute, or `fallback` if the node lacks it.
  const ::onnx::AttributeProto* Find(const char* name) const;
  int64_t Int(const char* name, int64_t fallback) const;
  double Float(const char* name, double fallback) const;
  std::string Text(const char* name, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* name, std::vector<int64_t> fallback) const;
  // Checks an attribute that Tandem supports with one value only. UNIMPLEMENTED: the node has the
  // attribute with another value.
  Status Only(const char* name, int64_t value) const;

  // Checks that all attributes of the node were read. UNIMPLEMENTED: an attribute was not read.
  Status AllRead() const;

 private:
  const ::onnx::NodeProto& node_;
  mutable std::set<std::string> read_;
};

}  // namespace tandem::onnx
