// The rule which rows of a data set are training, validation and test rows.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::reader {

enum class RowPart : uint8_t { kTrain, kValidation, kTest, kUnused };

// Shares of training, validation and test rows; their sum is 1.
using SplitShares = std::array<double, 3>;

// Parses shares such as "0.8/0.1/0.1", or "0.8/0.2" for training and test. "": all rows are
// training rows. `field`: name of the setting in messages. `test_files`: there are separate test
// files, so the shares are those of training and validation. INVALID_ARGUMENT: `text` has other
// values, or their sum is not 1.
StatusOr<SplitShares> ParseSplit(const char* field, const std::string& text, bool test_files);

// Assigns rows to parts at random. The number of a row and the seed decide, so the parts do not
// depend on the number of ranks. Immutable, and therefore thread-safe.
class RowSplit {
 public:
  RowSplit(const SplitShares& shares, uint64_t seed);
  // Returns the part of the row with this number: never kUnused.
  RowPart PartOf(uint64_t number) const;

 private:
  const SplitShares shares_;
  const uint64_t key_;
};

}  // namespace tandem::reader
