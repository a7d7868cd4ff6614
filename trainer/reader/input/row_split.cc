#include "trainer/reader/input/row_split.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "common/base/rng.h"

namespace tandem::reader {

StatusOr<SplitShares> ParseSplit(const char* field, const std::string& text, bool test_files) {
  if (text.empty()) return SplitShares{1, 0, 0};
  std::vector<double> shares;
  double sum = 0;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, '/'))) {
    double share = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), share);
    if (error != std::errc() || stop != part.data() + part.size() || !(share >= 0 && share <= 1)) {
      return InvalidArgument("%s is \"%s\", expected shares such as \"0.8/0.1/0.1\" [TD1104]",
                             field, text);
    }
    shares.push_back(share);
    sum += share;
  }
  const bool count = shares.size() == 2 || (shares.size() == 3 && !test_files);
  if (!count || std::abs(sum - 1) > 1e-6 || shares[0] == 0) {
    return InvalidArgument(
        "%s is \"%s\", expected %s with the sum 1, and a share for training [TD1104]", field, text,
        test_files ? "two shares (the test rows are separate)" : "two or three shares");
  }
  if (shares.size() == 3) return SplitShares{shares[0], shares[1], shares[2]};
  if (test_files) return SplitShares{shares[0], shares[1], 0};
  return SplitShares{shares[0], 0, shares[1]};
}

RowSplit::RowSplit(const SplitShares& shares, uint64_t seed)
    : shares_(shares), key_(StreamKey(seed, "table split")) {
  TD_REQUIRE(shares[0] > 0 && shares[1] >= 0 && shares[2] >= 0);
}

RowPart RowSplit::PartOf(uint64_t number) const {
  const auto at = static_cast<double>(UniformAt(key_, number));
  const auto& [train, validation, test] = shares_;
  if (test > 0 && at >= train + validation) return RowPart::kTest;
  if (validation > 0 && at >= train) return RowPart::kValidation;
  return RowPart::kTrain;
}

}  // namespace tandem::reader
