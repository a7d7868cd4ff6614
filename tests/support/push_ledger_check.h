// Compares the ledgers of trainers (push_ledger.h) with the state of the servers.
#pragma once

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/push_ledger.h"

namespace tandem {

// Numbers of pushes: acknowledged, begun without an acknowledgement, lost although acknowledged,
// and applied more than once. `lost` counts a push for its row and for its slot, `lost_rows` only
// for its row.
struct LedgerSum {
  int64_t acknowledged = 0, open = 0, lost = 0, doubled = 0, lost_rows = 0;
};

// Adds the pushes of all trainers to *sum. `path`: returns the ledger file of a trainer. `client`:
// configured (ConfigureLedger).
inline void CompareLedgers(ps::PsClient& client,
                           const std::function<std::string(int trainer)>& path, LedgerSum* sum) {
  std::vector<float> slots(kLedgerSlots);
  const ps::PsTensor tensor = {"slots", slots.data(), kLedgerSlots};
  ASSERT_TRUE(client.InitOrFetch({&tensor, 1}).ok());
  const auto table = client.PullTable("rows", false);
  ASSERT_TRUE(table.ok()) << table.status();
  std::map<int64_t, int64_t> applied;  // number of applied pushes, by row
  for (size_t i = 0; i < table->ids.size(); ++i) {
    applied[static_cast<int64_t>(table->ids[i])] = static_cast<int64_t>(table->content[i]);
  }
  const auto count = [sum](int64_t least, int64_t most, int64_t found) {
    sum->lost += std::max<int64_t>(0, least - found);
    sum->doubled += std::max<int64_t>(0, found - most);
  };
  std::vector<int64_t> least(kLedgerSlots, 0), most(kLedgerSlots, 0);
  for (int t = 0; t < kLedgerTrainers; ++t) {
    std::set<int64_t> begun, acknowledged;
    std::ifstream file(path(t));
    std::string word;
    for (int64_t number; file >> word >> number;) {
      (word == "b" ? begun : acknowledged).insert(number);
    }
    for (const int64_t number : begun) {
      const LedgerPush push{t, number};
      const int64_t sure = acknowledged.contains(number);
      count(sure, 1, applied[push.Row()]);
      sum->lost_rows += sure == 1 && applied[push.Row()] == 0;
      least[static_cast<size_t>(push.Slot())] += sure;
      ++most[static_cast<size_t>(push.Slot())];
      applied.erase(push.Row());
      sum->acknowledged += sure;
      sum->open += 1 - sure;
    }
  }
  EXPECT_THAT(applied, testing::IsEmpty()) << "rows of pushes that no trainer made";
  for (size_t s = 0; s < kLedgerSlots; ++s) {
    count(least[s], most[s], static_cast<int64_t>(slots[s]));
  }
}

}  // namespace tandem
