#include "kernels/graph/op_device.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/require.h"

namespace tandem::graph {

StatusOr<int> SectionOf(const ops::Attr& device) {
  const auto* text = std::get_if<std::string>(&device);
  const std::string given = text == nullptr ? "no text" : "\"" + *text + "\"";
  int section = -1;
  if (text != nullptr && (*text == "gpu" || *text == "cpu")) return section;
  const bool kind = text != nullptr && (text->starts_with("gpu:") || text->starts_with("cpu:"));
  if (!kind || !absl::SimpleAtoi(text->substr(4), &section) || section < 0 ||
      section >= kSectionsMax) {
    return InvalidArgument(
        "op_device is %s, expected \"cpu\", \"gpu\", \"cpu:N\" or \"gpu:N\" with a section N from "
        "0 to %d [TD1104]",
        given, kSectionsMax - 1);
  }
  return section;
}

int SectionOf(const ops::Op& op) {
  const auto device = op.attrs.find(kOpDevice);
  TD_REQUIRE(device == op.attrs.end() || SectionOf(device->second).ok());
  return device == op.attrs.end() ? -1 : *SectionOf(device->second);
}

std::string_view DeviceKindOf(const ops::Op& op) {
  const auto device = op.attrs.find(kOpDevice);
  TD_REQUIRE(device == op.attrs.end() || SectionOf(device->second).ok());
  if (device == op.attrs.end()) return "";
  return std::string_view(std::get<std::string>(device->second)).substr(0, 3);
}

ops::Attr DeviceOf(int section) { return absl::StrCat("cpu:", section); }

}  // namespace tandem::graph
