#include "kernels/ops/op.h"

#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace tandem {

const Attr& OpView::Find(std::string_view name) const {
  if (auto it = op_.attrs.find(name); it != op_.attrs.end()) return it->second;
  for (const AttrDef& attr : def_.attrs) {
    if (name == attr.name) return attr.default_value;
  }
  LOG(FATAL) << op_.type << " declares no attribute " << name;
}

Status OpView::Error(const std::string& what) const {
  std::vector<std::string> shapes;
  for (const TensorDesc* desc : in_) shapes.push_back(desc ? ToString(*desc) : "-");
  const std::string where = op_.source.empty() ? "" : " (" + op_.source + ")";
  return InvalidArgument("%s%s: %s [inputs: %s]", op_.type, where, what,
                         absl::StrJoin(shapes, ", "));
}

std::string GradContext::In(size_t slot, size_t i) const {
  const auto& vars = op().inputs[slot];
  return i < vars.size() ? vars[i] : "";
}

std::string GradContext::Out(size_t slot, size_t i) const {
  const auto& vars = op().outputs[slot];
  return i < vars.size() ? vars[i] : "";
}

}  // namespace tandem
