// Conventions that the processes of e2e_ledger_trainers_test share. Each push adds 1 to a separate
// row and to one of a few shared slots (SGD, learning rate 1). The trainer writes a line to a file
// before each push, and a line after the push is acknowledged.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "pserver/client/client.h"

namespace tandem {

inline constexpr int kLedgerTrainers = 2, kLedgerSlots = 64;
inline constexpr int64_t kLedgerHeight = int64_t{1} << 60;

// A push of a trainer. Push numbers continue across all incarnations of the trainer. The trainer's
// file gets a line "b NUMBER" before the push, and a line "a NUMBER" after the acknowledgement.
struct LedgerPush {
  int trainer = 0;
  int64_t number = 0;

  // Returns the row of this push. Multiplication by an odd factor permutes the numbers below 2^60.
  // Thus each push has a different row, and the rows are spread over the whole table.
  int64_t Row() const {
    const uint64_t all = static_cast<uint64_t>(number) * kLedgerTrainers + trainer;
    return static_cast<int64_t>(all * 0x9E3779B97F4A7C15u &
                                static_cast<uint64_t>(kLedgerHeight - 1));
  }
  int Slot() const { return static_cast<int>((number * 7 + trainer * 13) % kLedgerSlots); }
};

// Returns the options of a trainer. The job's secret is in the file TANDEM_SECRET_FILE, if there is
// one. The options of two trainers may differ only in the trainer
// number: a server rejects any other difference.
inline ps::PsOptions LedgerOptions(int trainer) {
  ps::PsOptions options;
  options.job = "ledger";
  if (const char* file = std::getenv("TANDEM_SECRET_FILE"); file != nullptr) {
    std::getline(std::ifstream(file), options.security.secret);
  }
  options.trainer = trainer;
  options.trainers = kLedgerTrainers;
  options.patience.retries = 100000;
  options.patience.start_timeout = options.patience.step_timeout =
      // The timeout is long, because the machine may be busy.
      std::chrono::minutes(5);
  options.partition.min_block_size = kLedgerSlots / 2;  // divides the slots among two servers
  return options;
}
inline StatusOr<ps::PsState> ConfigureLedger(ps::PsClient& client) {
  const ps::PsTable rows = {.variable = "rows", .height = kLedgerHeight, .dim = 1};
  return client.Configure({{"slots", Shape{kLedgerSlots}}}, ps::PsMode::kASync, {}, {rows});
}

}  // namespace tandem
