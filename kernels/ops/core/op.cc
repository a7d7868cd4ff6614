#include "kernels/ops/core/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace tandem::ops {
namespace {

std::string NameIn(const std::vector<std::vector<std::string>>& slots, size_t slot, size_t i) {
  return slot < slots.size() && i < slots[slot].size() ? slots[slot][i] : std::string();
}

Attr Stored(std::string_view text) { return std::string(text); }
Attr Stored(std::span<const int64_t> values) {
  return std::vector<int64_t>(values.begin(), values.end());
}
Attr Stored(std::span<const double> values) {
  return std::vector<double>(values.begin(), values.end());
}
template <typename T>
Attr Stored(T value) {
  return value;
}

}  // namespace

Attr ToAttr(const AttrDefault& value) {
  Attr attr = std::visit([](const auto& v) { return Stored(v); }, value);
  TD_REQUIRE(attr.index() == value.index());
  return attr;
}

Status OpView::Error(const std::string& what) const {
  std::vector<std::string> parts;  // texts such as "Input is f32[32,784]"
  size_t position = 0;
  for (const SlotDef& slot : def_.inputs) {
    const bool many = slot.arity == Arity::kMany;
    const size_t end = many ? in_.size() : std::min(position + 1, in_.size());
    for (size_t i = 0; position < end; ++i, ++position) {
      if (in_[position] == nullptr) continue;
      const std::string index = many ? absl::StrCat("[", i, "]") : "";
      parts.push_back(absl::StrCat(slot.name, index, " is ", ToString(*in_[position])));
    }
  }
  const std::string where = op_.source.empty() ? "" : absl::StrCat(" (", op_.source, ")");
  return InvalidArgument("operator %s%s: %s%s%s [TD1207]", op_.type, where,
                         absl::StrJoin(parts, ", "), parts.empty() ? "" : "; ", what);
}

Attr OpView::Default(std::string_view name) const {
  for (const AttrDef& attr : def_.attrs) {
    if (name == attr.name) return ToAttr(attr.default_value);
  }
  LOG(FATAL) << "operator " << def_.type << " declares no attribute " << name;
}

std::string GradContext::In(size_t slot, size_t i) const { return NameIn(op().inputs, slot, i); }
std::string GradContext::Out(size_t slot, size_t i) const { return NameIn(op().outputs, slot, i); }

}  // namespace tandem::ops
