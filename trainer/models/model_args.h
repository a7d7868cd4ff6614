// Arguments of a zoo model, read by the function that builds it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::trainer {

// The values of all arguments of one model. status() returns the error of the first invalid value.
// For an invalid value, a method returns some value in the valid range. A builder may therefore
// read all arguments and check status() once.
class ModelArgs {
 public:
  ModelArgs(std::string model, std::map<std::string, std::string> values)
      : model_(std::move(model)), values_(std::move(values)) {}

  // Returns the value as a whole number in [min, max].
  int64_t Int(const std::string& name, int64_t min, int64_t max);
  // Returns the value as a list of whole numbers in [min, max], separated by commas. The list must
  // have count_min to count_max numbers; "": an empty list.
  std::vector<int64_t> Ints(const std::string& name, size_t count_min, size_t count_max,
                            int64_t min, int64_t max);
  // Returns the value as a number in [min, max].
  double Real(const std::string& name, double min, double max);
  // Returns the value as text, unchanged.
  const std::string& Text(const std::string& name) const;
  const Status& status() const { return status_; }
  // Sets the status to `status`, unless an earlier error is recorded. `status` must not be OK.
  void Fail(Status status);

 private:
  bool Parse(const std::string& name, const std::string& text, int64_t min, int64_t max,
             int64_t* out);

  const std::string model_;
  const std::map<std::string, std::string> values_;
  Status status_;
};

}  // namespace tandem::trainer
