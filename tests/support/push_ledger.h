// What the processes of e2e_ledger_trainers_test agree on: each push adds 1 to a row of its own,
// and to one of some slots (SGD, learning rate 1), and is written down in front of it and behind
// it.
#pragma once

#include <cstdint>

#include "pserver/client/client.h"

namespace tandem {

inline constexpr int kLedgerTrainers = 2, kLedgerSlots = 64;
inline constexpr int64_t kLedgerHeight = int64_t{1} << 60;

// A push of a trainer, counted through all its incarnations. In its file: a line "b NUMBER" once it
// begins, and "a NUMBER" once it was acknowledged.
struct LedgerPush {
  int trainer = 0;
  int64_t number = 0;

  // Its row, no other push's, anywhere in the table: an odd factor permutes the numbers below 2^60.
  int64_t Row() const {
    const uint64_t all = static_cast<uint64_t>(number) * kLedgerTrainers + trainer;
    return static_cast<int64_t>(all * 0x9E3779B97F4A7C15u &
                                static_cast<uint64_t>(kLedgerHeight - 1));
  }
  int Slot() const { return static_cast<int>((number * 7 + trainer * 13) % kLedgerSlots); }
};

// Of everybody: servers refuse a trainer that comes with others.
inline PsOptions LedgerOptions(int trainer) {
  PsOptions options;
  options.job = "ledger";
  options.trainer = trainer;
  options.trainers = kLedgerTrainers;
  options.retries = 100000;
  options.start_timeout = options.step_timeout = std::chrono::minutes(5);  // however busy it is
  options.partition.min_block_size = kLedgerSlots / 2;                     // for two servers
  return options;
}
inline StatusOr<PsState> ConfigureLedger(PsClient& client) {
  const PsTable rows = {.variable = "rows", .height = kLedgerHeight, .dim = 1};
  return client.Configure({{"slots", Shape{kLedgerSlots}}}, PsMode::kASync, {}, {rows});
}

}  // namespace tandem
