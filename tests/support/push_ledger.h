// Conventions that the processes of e2e_ledger_trainers_test share. Each push adds 1 to its own row
// and to one of a few shared slots (SGD, learning rate 1). The trainer notes each push in a file
// before it begins and after it is acknowledged.
#pragma once

#include <cstdint>

#include "pserver/client/client.h"

namespace tandem {

inline constexpr int kLedgerTrainers = 2, kLedgerSlots = 64;
inline constexpr int64_t kLedgerHeight = int64_t{1} << 60;

// A push of a trainer, numbered across all incarnations of that trainer. The trainer's file has a
// line "b NUMBER" when the push begins and a line "a NUMBER" when it was acknowledged.
struct LedgerPush {
  int trainer = 0;
  int64_t number = 0;

  // The row of this push. No other push has the same row, and rows spread over the whole table:
  // multiplication by an odd factor permutes the numbers below 2^60.
  int64_t Row() const {
    const uint64_t all = static_cast<uint64_t>(number) * kLedgerTrainers + trainer;
    return static_cast<int64_t>(all * 0x9E3779B97F4A7C15u &
                                static_cast<uint64_t>(kLedgerHeight - 1));
  }
  int Slot() const { return static_cast<int>((number * 7 + trainer * 13) % kLedgerSlots); }
};

// Options of all trainers: a server rejects a trainer with other options.
inline ps::PsOptions LedgerOptions(int trainer) {
  ps::PsOptions options;
  options.job = "ledger";
  options.trainer = trainer;
  options.trainers = kLedgerTrainers;
  options.patience.retries = 100000;
  options.patience.start_timeout = options.patience.step_timeout =
      std::chrono::minutes(5);                          // machine may be busy
  options.partition.min_block_size = kLedgerSlots / 2;  // over two servers
  return options;
}
inline StatusOr<ps::PsState> ConfigureLedger(ps::PsClient& client) {
  const ps::PsTable rows = {.variable = "rows", .height = kLedgerHeight, .dim = 1};
  return client.Configure({{"slots", Shape{kLedgerSlots}}}, ps::PsMode::kASync, {}, {rows});
}

}  // namespace tandem
