#include "common/tables/push_header.h"

#include <algorithm>
#include <cstddef>

#include "common/base/require.h"

namespace tandem {
namespace {

void RaiseTo(const std::vector<uint64_t>& told, std::vector<uint64_t>& known) {
  if (known.size() < told.size()) known.resize(told.size());
  for (size_t i = 0; i < told.size(); ++i) known[i] = std::max(known[i], told[i]);
}

}  // namespace

void SentNumbers::Raise(const SentNumbers& other) {
  RaiseTo(other.sent, sent);
  RaiseTo(other.ended, ended);
}

uint64_t SentNumbers::At(const std::vector<uint64_t>& numbers, int server) {
  TD_REQUIRE(server >= 0);
  const auto index = static_cast<size_t>(server);
  return index < numbers.size() ? numbers[index] : 0;
}

}  // namespace tandem
