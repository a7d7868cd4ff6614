// A trainer that pushes one update after the other until it is killed. The trainer records the
// pushes in a ledger file (tests/support/push_ledger.h). After a restart it continues after the
// last number in the file. While FILE.stop exists, it makes no push. Usage: ledger-trainer
// SERVER,SERVER TRAINER shm|grpc FILE
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "pserver/client/client.h"
#include "tests/support/push_ledger.h"

namespace tandem {
namespace {

// Writes the line with one call of write(). Thus the file contains the whole line or no part of it,
// even if this process is killed.
void Note(int file, char what, int64_t number) {
  const std::string line = std::string(1, what) + " " + std::to_string(number) + "\n";
  CHECK_EQ(write(file, line.data(), line.size()), static_cast<ssize_t>(line.size()));
}

Status PushOne(ps::PsClient& client, const LedgerPush& push) {
  std::vector<float> gradient(kLedgerSlots, 0.0f);
  gradient[static_cast<size_t>(push.Slot())] = -1.0f;
  const int64_t row = push.Row();
  const float one = -1.0f;
  std::promise<Status> done;
  client.Push(static_cast<uint64_t>(push.number), 1.0f, {{"slots", gradient.data(), kLedgerSlots}},
              [&done](Status status) { done.set_value(std::move(status)); },
              {{"rows", {&row, 1}, &one}});
  return done.get_future().get();
}

Status Train(const std::vector<std::string>& servers, int trainer, const std::string& transport,
             const std::string& path) {
  LedgerPush push{.trainer = trainer};
  std::string word;
  for (std::ifstream before(path); before >> word;) push.number += word == "b";
  ps::PsOptions options = LedgerOptions(trainer);
  options.transport = transport == "shm" ? ps::PsTransport::kShm : ps::PsTransport::kGrpc;
  TD_ASSIGN_OR_RETURN(const auto client, ps::PsClient::Connect(servers, options));
  TD_RETURN_IF_ERROR(ConfigureLedger(*client).status());
  std::vector<float> slots(kLedgerSlots, 0.0f);
  const ps::PsTensor tensor = {"slots", slots.data(), kLedgerSlots};
  TD_RETURN_IF_ERROR(client->InitOrFetch({&tensor, 1}).status());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  CHECK_GE(file, 0);
  const std::string stop = path + ".stop";
  for (;; ++push.number) {
    while (access(stop.c_str(), F_OK) == 0) usleep(10'000);
    Note(file, 'b', push.number);
    TD_RETURN_IF_ERROR(PushOne(*client, push));
    Note(file, 'a', push.number);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  CHECK_EQ(argc, 5);
  const tandem::Status status =
      tandem::Train(absl::StrSplit(argv[1], ','), std::stoi(argv[2]), argv[3], argv[4]);
  std::fprintf(stderr, "%s\n", tandem::ToString(status).c_str());
  return 1;
}
