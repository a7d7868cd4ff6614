// Compares the bytes of each kind of log entry with the bytes that protobuf writes.
#include "pserver/wire/log_record.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/crc32c.h"
#include "common/codec/bucket_map_proto.h"
#include "common/codec/wire.h"
#include "common/tensor/device.h"
#include "gtest/gtest.h"
#include "proto/pserver.pb.h"
#include "pserver/wire/move_convert.h"

namespace tandem::pserver {
namespace {

std::string Flat(const codec::EncodedMessage& message) {
  std::string bytes;
  for (const auto& p : message.pieces) {
    bytes += p.data ? std::string(static_cast<const char*>(p.data), p.bytes) : p.owned;
  }
  return bytes;
}

std::string OnDisk(char kind, const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  std::string bytes(1, kind);
  codec::PutFixed32(bytes, Crc32c(0, body.data(), body.size()));
  return bytes + body;
}

PushHeader Header() {
  return {.caller = {"job", 2, 77},
          .sequence = 5,
          .step = 6,
          .learning_rate = 0.25f,
          .generation = 8,
          .origin_server = 1,
          .origin_sequence = 4,
          .numbers = {{3, 4}, {1, 2}},
          .finite = true,
          .event_time_ms = 1'700'000'000'123};
}

PushRequest Logged() {
  PushRequest request;
  request.set_job("job");
  request.set_trainer_id(2);
  request.set_incarnation(77);
  request.set_sequence(5);
  request.set_step(6);
  request.set_learning_rate(0.25f);
  for (const uint64_t n : {3, 4}) request.add_sent(n);
  for (const uint64_t n : {1, 2}) request.add_ended(n);
  request.set_event_time_ms(1'700'000'000'123);
  return request;
}

// Expects that the record is encoded as `bytes`. Returns the record that is decoded from `bytes`.
LogRecord ExpectBytes(const LogRecord& record, const std::string& bytes) {
  EXPECT_EQ(Flat(EncodeLogEntry({7, record})), bytes);
  const StatusOr<LogEntry> entry = DecodeLogEntry(7, bytes);
  EXPECT_TRUE(entry.ok()) << entry.status();
  if (!entry.ok()) return {};
  EXPECT_EQ(entry->number, 7u);
  EXPECT_EQ(entry->record.index(), record.index());
  EXPECT_EQ(Flat(EncodeLogEntry(*entry)), bytes);
  return entry->record;
}

TEST(LogRecordTest, AnOrderHasTheHeaderWithoutWhatConcernsItsAcceptance) {
  const LogRecord read = ExpectBytes(OrderRecord{Header(), 16}, OnDisk(8, Logged()));
  const PushHeader& header = std::get<OrderRecord>(read).header;
  EXPECT_EQ(header.numbers.ended, Header().numbers.ended);
  EXPECT_EQ(header.generation, 0u);
  EXPECT_EQ(header.origin_server, 0);
  EXPECT_FALSE(header.finite);
}

TEST(LogRecordTest, APushHasItsValuesToo) {
  CpuDevice device;
  Buffer values = *device.Allocate(2 * sizeof(float));
  const float numbers[] = {1, 2};
  std::memcpy(values.get(), numbers, sizeof(numbers));
  PushRequest request = Logged();
  SliceTensor* slice = request.add_slice();
  slice->set_variable("w");
  slice->set_offset(3);
  slice->mutable_tensor()->set_dtype(F32);
  slice->mutable_tensor()->add_dims(2);
  slice->mutable_tensor()->set_content(std::string(reinterpret_cast<const char*>(numbers), 8));
  const LogRecord read = ExpectBytes(
      PushRecord{{Header(), {{"w", 3, {DType::kF32, Shape{2}}}}}, {values}}, OnDisk(1, request));
  const auto& push = std::get<PushRecord>(read);
  ASSERT_EQ(push.values.size(), 1u);
  const auto* const decoded = reinterpret_cast<const float*>(push.values[0].get());
  EXPECT_TRUE(std::equal(std::begin(numbers), std::end(numbers), decoded));
}

TEST(LogRecordTest, ASnapshotHasItsNumberAndTheFactsForItsRetention) {
  SnapshotEntry entry;
  entry.set_number(9);
  entry.set_time_us(-5);
  entry.set_complete(7);
  entry.add_whole(6);
  entry.add_whole(7);
  const LogRecord read = ExpectBytes(SnapshotRecord{9, -5, 7, {6, 7}}, OnDisk(10, entry));
  const auto& record = std::get<SnapshotRecord>(read);
  EXPECT_EQ(record.time_us, -5);
  EXPECT_EQ(record.whole, (std::vector<uint64_t>{6, 7}));
}

TEST(LogRecordTest, AnEntryOfANewerVersionIsRefusedByName) {
  const Status newer = DecodeLogEntry(7, OnDisk(11, SnapshotEntry())).status();
  EXPECT_EQ(newer.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      newer.message(),
      "entry 7 of the update log has the kind 11, which this version does not know, because a "
      "newer version wrote it [TD2119]; hint: start the newer version");
}

TEST(LogRecordTest, ChangesOfATrainerHaveItsNameAndAnAdoptionItsStep) {
  PushRequest request;
  request.set_job("job");
  request.set_trainer_id(2);
  request.set_incarnation(77);
  ExpectBytes(CompleteRecord{Header().caller}, OnDisk(3, request));
  request.set_step(6);
  ExpectBytes(AdoptRecord{Header().caller, 6}, OnDisk(2, request));
}

TEST(LogRecordTest, EachChangeOfOwnersHasAMapAndOnlyItsOwnFields) {
  MoveEntry entry;
  entry.mutable_map();
  const std::vector<BucketMove> moves = {{.bucket = 9, .epoch = 4, .server = 1}};
  BucketMap map;
  map.SetAddress(1, "host:1");
  BucketMoveDef* move = entry.add_move();
  move->set_bucket(9);
  move->set_epoch(4);
  move->set_server(1);
  ExpectBytes(MoveBegunRecord{moves}, OnDisk(4, entry));
  ToProto(map, entry.mutable_map());
  ExpectBytes(MoveReleasedRecord{moves, map}, OnDisk(6, entry));
  entry.clear_move();
  ExpectBytes(MoveLearnedRecord{map}, OnDisk(7, entry));
  entry.mutable_map()->Clear();
  entry.set_leaving(true);
  ExpectBytes(MoveRefusedRecord{true}, OnDisk(9, entry));
}

TEST(LogRecordTest, AnOfferHasTheContentsOfTheBuckets) {
  auto migration = std::make_shared<BucketMigration>();
  migration->moves = {{.bucket = 9, .epoch = 4, .server = 1}};
  migration->source = 2;
  migration->event_time_ms = 1'700'000'000'123;
  migration->checks["rows"] = {
      .made = 9,
      .recent = {{.version = 1, .time_s = 5, .begin = true},
                 {.version = 4, .time_s = 8, .age_max = 3, .decay = 0.5f}}};
  MoveEntry entry;
  entry.mutable_map();
  ToProto(*migration, entry.mutable_parcel());
  const LogRecord read = ExpectBytes(MoveOfferedRecord{migration}, OnDisk(5, entry));
  const auto& move = std::get<MoveRecord>(read);
  const BucketMigration& got = *std::get<MoveOfferedRecord>(move).migration;
  EXPECT_EQ(got.source, 2);
  EXPECT_EQ(got.event_time_ms, migration->event_time_ms);
  EXPECT_EQ(got.checks, migration->checks);
}

}  // namespace
}  // namespace tandem::pserver
