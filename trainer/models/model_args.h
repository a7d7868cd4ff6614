// Arguments of a zoo model, read by the function that builds it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::trainer {

// The values of one model's arguments, with defaults filled in. status() keeps the first bad
// value's error. The functions return a value in range for a bad one, so a builder may continue and
// check once.
class ModelArgs {
 public:
  ModelArgs(std::string model, std::map<std::string, std::string> values)
      : model_(std::move(model)), values_(std::move(values)) {}

  // A whole number in [min, max].
  int64_t Int(const std::string& name, int64_t min, int64_t max);
  // Whole numbers in [min, max], separated by commas; count_min .. count_max of them; "": none.
  std::vector<int64_t> Ints(const std::string& name, size_t count_min, size_t count_max,
                            int64_t min, int64_t max);
  // A number in [min, max].
  double Real(const std::string& name, double min, double max);
  // The value as given.
  const std::string& Text(const std::string& name) const;
  const Status& status() const { return status_; }
  // Keeps `status` unless there is one already.
  void Fail(Status status);

 private:
  bool Parse(const std::string& name, const std::string& text, int64_t min, int64_t max,
             int64_t* out);

  const std::string model_;
  const std::map<std::string, std::string> values_;
  Status status_;
};

}  // namespace tandem::trainer
