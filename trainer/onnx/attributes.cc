#include "trainer/onnx/attributes.h"

#include <charconv>
#include <iterator>

#include "onnx/onnx.pb.h"

namespace tandem::onnx {

const ::onnx::AttributeProto* Attributes::Find(const char* name) const {
  read_.insert(name);
  for (const auto& attr : node_.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

int64_t Attributes::Int(const char* name, int64_t fallback) const {
  const auto* attr = Find(name);
  return attr == nullptr ? fallback : attr->i();
}

double Attributes::Float(const char* name, double fallback) const {
  const auto* attr = Find(name);
  if (attr == nullptr) return fallback;
  // The shortest decimal number with this float: 0.001, not 0.0010000000475.
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), attr->f()).ptr;
  double number = attr->f();
  std::from_chars(std::begin(text), end, number);
  return number;
}

std::string Attributes::Text(const char* name, const std::string& fallback) const {
  const auto* attr = Find(name);
  return attr == nullptr ? fallback : attr->s();
}

std::vector<int64_t> Attributes::Ints(const char* name, std::vector<int64_t> fallback) const {
  const auto* attr = Find(name);
  if (attr == nullptr) return fallback;
  return {attr->ints().begin(), attr->ints().end()};
}

Status Attributes::Only(const char* name, int64_t value) const {
  const int64_t given = Int(name, value);
  return given == value ? OkStatus()
                        : Unimplemented("attribute %s = %d is not supported [TD7015]", name, given);
}

Status Attributes::AllRead() const {
  for (const auto& attr : node_.attribute()) {
    if (!read_.contains(attr.name()))
      return Unimplemented("attribute \"%s\" is not supported [TD7015]", attr.name());
  }
  return OkStatus();
}

}  // namespace tandem::onnx
