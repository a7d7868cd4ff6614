// Fuzz target: records of the pservers' WAL. An input consists of the kind and the body of a
// record. The target adds the correct checksum. The target also decodes the unchanged input as a
// record.
#include <google/protobuf/stubs/logging.h>

#include <cstring>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/codec/wire.h"
#include "pserver/state/bucket_move.h"
#include "pserver/wire/log_record.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

constexpr uint64_t kNumber = 3;

std::string BytesOf(const codec::EncodedMessage& message) {
  std::string bytes;
  for (const codec::EncodedMessage::Piece& piece : message.pieces) {
    piece.data == nullptr ? bytes.append(piece.owned)
                          : bytes.append(static_cast<const char*>(piece.data), piece.bytes);
  }
  return bytes;
}

bool Decodes(std::string_view record) {
  const auto entry = pserver::DecodeLogEntry(kNumber, record);
  CHECK(entry.ok() || !entry.status().message().empty());
  if (!entry.ok()) return false;
  // Writes an accepted entry again; the parser must accept the written entry.
  const std::string once = BytesOf(pserver::EncodeLogEntry(*entry));
  const auto again = pserver::DecodeLogEntry(kNumber, once);
  CHECK(again.ok()) << again.status();
  CHECK(BytesOf(pserver::EncodeLogEntry(*again)) == once);
  return true;
}

bool Accepts(std::string_view input) {
  bool accepted = Decodes(input);
  if (input.empty()) return accepted;
  const std::string_view body = input.substr(1);
  std::string record(1, input[0]);
  codec::PutFixed32(record, Crc32c(0, body.data(), body.size()));
  return Decodes(record.append(body)) || accepted;
}

// Returns a seed: the kind and the body of `entry`.
std::string Seed(const pserver::LogEntry& entry) {
  std::string bytes = BytesOf(pserver::EncodeLogEntry(entry));
  return bytes.erase(1, 4);
}

std::vector<std::string> Seeds() {
  CpuDevice device;
  pserver::PushRecord push{{{{"job", 1, 99}, 5, 6, 0.25f}, {}}, {}};
  push.head.slices.push_back({"fc_0.w", 2, {DType::kF32, {3}}});
  auto values = device.Allocate(3 * sizeof(float));
  CHECK(values.ok());
  std::memset(values->get(), 0, 3 * sizeof(float));
  push.values.push_back(*std::move(values));
  auto migration = std::make_shared<pserver::BucketMigration>();
  migration->moves.push_back({});
  migration->config.job = "job";
  migration->source = 1;
  return {Seed({kNumber, push}), Seed({kNumber, pserver::AdoptRecord{{"job", 1, 99}, 0}}),
          Seed({kNumber, pserver::MoveBegunRecord{{BucketMove()}}}),
          Seed({kNumber, pserver::MoveOfferedRecord{migration}})};
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  // Hides protobuf's log, which would get a line for each name that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  return {Seeds(), {"\1", "\4", "\5", "\6", "\7"}, Accepts};
}

}  // namespace tandem
