#include "tests/bench/report.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::bench {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string Number(double value) { return absl::StrFormat("%.9g", value); }

}  // namespace

void Report::Key(const std::string& name) {
  body_ += (body_.empty() ? "" : ", ") + Quoted(name) + ": ";
}

void Report::Add(const std::string& name, double value) {
  Key(name);
  body_ += Number(value);
}

void Report::Add(const std::string& name, const std::string& value) {
  Key(name);
  body_ += Quoted(value);
}

void Report::Add(const std::string& name, const std::vector<double>& values) {
  Key(name);
  std::string list;
  for (const double value : values) list += (list.empty() ? "" : ", ") + Number(value);
  body_ += "[" + list + "]";
}

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tandem::bench
