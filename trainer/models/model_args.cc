#include "trainer/models/model_args.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::trainer {

void ModelArgs::Fail(Status status) {
  TD_REQUIRE(!status.ok());
  if (status_.ok()) status_ = std::move(status);
}

bool ModelArgs::Parse(const std::string& name, const std::string& text, int64_t min, int64_t max,
                      int64_t* out) {
  TD_REQUIRE(min <= max);
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= min && value <= max) {
    *out = value;
    return true;
  }
  const std::string& all = values_.at(name);
  Fail(InvalidArgument(
      "model \"%s\": argument \"%s\" is \"%s\": %sexpected whole numbers from %d to %d [TD1202]",
      model_, name, all, text == all ? "" : "\"" + text + "\" is invalid, ", min, max));
  return false;
}

int64_t ModelArgs::Int(const std::string& name, int64_t min, int64_t max) {
  const auto it = values_.find(name);
  CHECK(it != values_.end()) << model_ << " has no argument " << name;
  int64_t value = min;
  Parse(name, it->second, min, max, &value);
  return value;
}

const std::string& ModelArgs::Text(const std::string& name) const {
  const auto it = values_.find(name);
  CHECK(it != values_.end()) << model_ << " has no argument " << name;
  return it->second;
}

double ModelArgs::Real(const std::string& name, double min, double max) {
  const auto it = values_.find(name);
  CHECK(it != values_.end()) << model_ << " has no argument " << name;
  double value = 0;
  if (absl::SimpleAtod(it->second, &value) && value >= min && value <= max) return value;
  Fail(InvalidArgument(
      "model \"%s\": argument \"%s\" is \"%s\", expected a number from %g to %g [TD1202]", model_,
      name, it->second, min, max));
  return min;
}

std::vector<int64_t> ModelArgs::Ints(const std::string& name, size_t count_min, size_t count_max,
                                     int64_t min, int64_t max) {
  const auto it = values_.find(name);
  CHECK(it != values_.end()) << model_ << " has no argument " << name;
  std::vector<int64_t> values;
  if (!it->second.empty()) {
    for (const auto part : absl::StrSplit(it->second, ',')) {
      int64_t value = min;
      if (!Parse(name, std::string(part), min, max, &value)) break;
      values.push_back(value);
    }
  }
  if (values.size() < count_min || values.size() > count_max) {
    Fail(
        InvalidArgument("model \"%s\": argument \"%s\" is \"%s\", expected %d to %d numbers "
                        "separated by commas [TD1202]",
                        model_, name, it->second, count_min, count_max));
    values.resize(std::min(std::max(values.size(), count_min), count_max), min);
  }
  return values;
}

}  // namespace tandem::trainer
