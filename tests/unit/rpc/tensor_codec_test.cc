#include "common/codec/tensor_codec.h"

#include <cstring>
#include <random>

#include "common/base/crc32c.h"
#include "common/rpc/byte_buffer.h"
#include "gmock/gmock.h"
#include "proto/pserver.pb.h"

namespace tandem::rpc {
namespace {

using testing::HasSubstr;

// Creates random messages, and splits received bytes at random places. Each test passes a fixed
// seed, so a failure is reproducible.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  std::string Bytes(size_t n) {
    std::string bytes(n, '\0');
    for (char& c : bytes) c = static_cast<char>(Int(0, 255));
    return bytes;
  }
  codec::CodedSlice Slice() {
    codec::CodedSlice s;
    s.variable = "layer_" + std::to_string(Int(0, 1000)) + std::string(Int(0, 40), 'w');
    s.offset = Int(0, 3) == 0 ? 0 : Int(-5, int64_t{1} << 40);
    s.desc.dtype = static_cast<DType>(Int(1, 6));
    std::vector<int64_t> dims(static_cast<size_t>(Int(0, 4)));
    for (int64_t& d : dims) d = Int(0, 20) == 0 ? 0 : Int(1, 12);
    s.desc.shape = Shape(dims);
    auto content = std::make_shared<std::string>(Bytes(s.desc.bytes()));
    s.data = content->data();
    s.keep = content;
    return s;
  }
  codec::CodedPush Push() {
    codec::CodedPush push;
    PushHeader& header = push.header;
    header.caller.job = std::string(Int(0, 10), 'j');
    header.caller.trainer = static_cast<int>(Int(0, 4));
    header.caller.incarnation = static_cast<uint64_t>(Int(0, INT64_MAX));
    header.sequence = static_cast<uint64_t>(Int(0, 300));
    header.step = static_cast<uint64_t>(Int(0, 3));
    header.learning_rate = Int(0, 3) == 0 ? 0.0f : static_cast<float>(Int(-9, 9)) / 7;
    const int64_t n = Int(0, 5);
    for (int64_t i = 0; i < n; ++i) push.slices.push_back(Slice());
    if (Int(0, 1) == 0) {
      PullRequest pull;
      pull.set_min_version(static_cast<uint64_t>(Int(1, 300)));
      push.pull = pull.SerializeAsString();
    }
    header.finite = Int(0, 1) == 0;
    header.generation = static_cast<uint64_t>(Int(0, 300));
    header.origin_server = static_cast<int>(Int(0, 2));
    header.event_time_ms = Int(0, 1) == 0 ? 0 : Int(-2, int64_t{1} << 45);
    header.origin_sequence = static_cast<uint64_t>(Int(0, 300));
    for (int64_t i = Int(0, 3); i > 0; --i) {
      header.numbers.sent.push_back(static_cast<uint64_t>(Int(0, INT64_MAX)));
      header.numbers.ended.push_back(static_cast<uint64_t>(Int(0, 300)));
    }
    return push;
  }
  // Splits the bytes at random places. Some of the pieces are empty.
  std::vector<std::span<const std::byte>> Cut(const std::string& bytes) {
    std::vector<std::span<const std::byte>> pieces;
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(bytes.size() - at, static_cast<size_t>(Int(0, 40)));
      pieces.emplace_back(data + at, n);
      at += n;
    }
    return pieces;
  }

 private:
  std::mt19937 engine_;
};

std::string Flat(const codec::EncodedMessage& message) {
  std::string bytes;
  for (const auto& p : message.pieces) {
    bytes += p.data ? std::string(static_cast<const char*>(p.data), p.bytes) : p.owned;
  }
  EXPECT_EQ(bytes.size(), message.bytes());
  return bytes;
}

void Fill(const codec::CodedSlice& s, bool crc, SliceTensor* out) {
  const std::string content(static_cast<const char*>(s.data), s.desc.bytes());
  out->set_variable(s.variable);
  out->set_offset(s.offset);
  out->mutable_tensor()->set_dtype(static_cast<DataType>(s.desc.dtype));
  for (int64_t d : s.desc.shape.dims()) out->mutable_tensor()->add_dims(d);
  out->mutable_tensor()->set_content(content);
  if (crc) out->mutable_tensor()->set_crc32c(Crc32c(0, content.data(), content.size()));
}

PushRequest ToProto(const codec::CodedPush& push, bool crc) {
  PushRequest proto;
  const PushHeader& header = push.header;
  proto.set_job(header.caller.job);
  proto.set_trainer_id(static_cast<uint32_t>(header.caller.trainer));
  proto.set_incarnation(header.caller.incarnation);
  proto.set_sequence(header.sequence);
  proto.set_step(header.step);
  proto.set_learning_rate(header.learning_rate);
  for (const codec::CodedSlice& s : push.slices) Fill(s, crc, proto.add_slice());
  if (!push.pull.empty()) {
    EXPECT_TRUE(proto.mutable_pull()->ParseFromString(push.pull));
  }
  proto.set_generation(header.generation);
  proto.set_origin_server(static_cast<uint32_t>(header.origin_server));
  proto.set_origin_sequence(header.origin_sequence);
  for (const uint64_t number : header.numbers.sent) proto.add_sent(number);
  for (const uint64_t number : header.numbers.ended) proto.add_ended(number);
  proto.set_finite(header.finite);
  proto.set_event_time_ms(header.event_time_ms);
  return proto;
}

void ExpectSame(codec::Fragments message, const std::vector<codec::CodedSlice>& got,
                const std::vector<codec::CodedSlice>& sent, bool crc) {
  ASSERT_EQ(got.size(), sent.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].variable, sent[i].variable);
    EXPECT_EQ(got[i].offset, sent[i].offset);
    EXPECT_EQ(got[i].desc, sent[i].desc);
    EXPECT_EQ(got[i].crc32c.has_value(), crc);
    std::string content(got[i].desc.bytes(), '\0');
    ASSERT_TRUE(codec::CopyContent(message, got[i], content.data()).ok());
    EXPECT_EQ(std::memcmp(content.data(), sent[i].data, content.size()), 0);
  }
}

void ExpectSame(const PushHeader& got, const PushHeader& want) {
  EXPECT_EQ(got.caller.job, want.caller.job);
  EXPECT_EQ(got.caller.trainer, want.caller.trainer);
  EXPECT_EQ(got.caller.incarnation, want.caller.incarnation);
  EXPECT_EQ(got.sequence, want.sequence);
  EXPECT_EQ(got.step, want.step);
  EXPECT_EQ(got.learning_rate, want.learning_rate);
  EXPECT_EQ(got.generation, want.generation);
  EXPECT_EQ(got.origin_server, want.origin_server);
  EXPECT_EQ(got.origin_sequence, want.origin_sequence);
  EXPECT_EQ(got.numbers.sent, want.numbers.sent);
  EXPECT_EQ(got.numbers.ended, want.numbers.ended);
  EXPECT_EQ(got.finite, want.finite);
  EXPECT_EQ(got.event_time_ms, want.event_time_ms);
}

codec::CodedTimes TimesOf(int round) {
  const auto n = static_cast<uint64_t>(round) + 1;
  return {n, n << 20, n << 40, (n << 40) + 5};
}

void Fill(const codec::CodedTimes& times, ServerTimes* out) {
  out->set_received(times.received);
  out->set_answered(times.answered);
  out->set_update_begin(times.update_begin);
  out->set_update_end(times.update_end);
}

void ExpectSame(const codec::CodedTimes& got, const codec::CodedTimes& want) {
  EXPECT_EQ(got.received, want.received);
  EXPECT_EQ(got.answered, want.answered);
  EXPECT_EQ(got.update_begin, want.update_begin);
  EXPECT_EQ(got.update_end, want.update_end);
}

TEST(TensorCodecTest, PushIsByteCompatibleWithProtobuf) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    const codec::CodedPush push = random.Push();
    const bool crc = round % 2 == 0;
    const std::string ours = Flat(codec::EncodePush(push));
    PushRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(ours));
    ASSERT_EQ(parsed.SerializeAsString(), ToProto(push, false).SerializeAsString());

    const std::string theirs = ToProto(push, crc).SerializeAsString();
    const auto pieces = random.Cut(theirs);
    const StatusOr<codec::CodedPush> decoded = codec::DecodePush(pieces);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectSame(decoded->header, push.header);
    EXPECT_EQ(decoded->pull, push.pull);
    ExpectSame(pieces, decoded->slices, push.slices, crc);
  }
}

TEST(TensorCodecTest, AnIndexAboveTheRangeIsReadAsTheHighest) {
  PushRequest push;
  push.set_trainer_id(UINT32_MAX);
  push.set_origin_server(uint32_t{1} << 31);
  const std::string bytes = push.SerializeAsString();
  const std::span<const std::byte> piece = std::as_bytes(std::span(bytes));
  const StatusOr<codec::CodedPush> decoded = codec::DecodePush({&piece, 1});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->header.caller.trainer, INT32_MAX);
  EXPECT_EQ(decoded->header.origin_server, INT32_MAX);
}

TEST(TensorCodecTest, PullReplyIsByteCompatibleWithProtobuf) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    codec::CodedPullReply reply{static_cast<uint64_t>(random.Int(0, 1000)),
                                static_cast<uint64_t>(random.Int(0, 1000)), random.Push().slices};
    if (round % 2 == 0) reply.times = TimesOf(round);
    PullReply expected;
    expected.set_version(reply.version);
    if (round % 2 == 0) Fill(reply.times, expected.mutable_times());
    expected.set_server_incarnation(reply.server_incarnation);
    for (const codec::CodedSlice& s : reply.slices) Fill(s, true, expected.add_slice());
    const std::string ours = Flat(codec::EncodePullReply(reply, true));
    PullReply parsed;
    ASSERT_TRUE(parsed.ParseFromString(ours));
    ASSERT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
    const std::string theirs = expected.SerializeAsString();
    const auto pieces = random.Cut(theirs);
    const StatusOr<codec::CodedPullReply> decoded = codec::DecodePullReply(pieces);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->version, reply.version);
    ExpectSame(pieces, decoded->slices, reply.slices, true);
    ExpectSame(decoded->times, reply.times);
    const codec::AnswerHead head = codec::HeadOfPullReply(pieces);
    EXPECT_EQ(head.version, reply.version);
    EXPECT_TRUE(head.pulled);
    ExpectSame(head.times, reply.times);
  }
}

TEST(TensorCodecTest, PushReplyIsByteCompatibleWithProtobuf) {
  Random random(3);
  for (int round = 0; round < 500; ++round) {
    codec::CodedPushReply reply{static_cast<uint64_t>(random.Int(0, 1000)),
                                static_cast<uint64_t>(random.Int(0, 1000)),
                                round % 3 == 0,
                                {}};
    if (round % 4 != 0)
      reply.pulled = codec::CodedPullReply{7, 0, random.Push().slices, TimesOf(9)};
    reply.times = TimesOf(round);
    PushReply expected;
    Fill(reply.times, expected.mutable_times());
    expected.set_version(reply.version);
    expected.set_server_incarnation(reply.server_incarnation);
    expected.set_duplicate(reply.duplicate);
    if (reply.pulled) {
      expected.mutable_pulled()->set_version(7);
      Fill(reply.pulled->times, expected.mutable_pulled()->mutable_times());
      for (const codec::CodedSlice& s : reply.pulled->slices) {
        Fill(s, false, expected.mutable_pulled()->add_slice());
      }
    }
    PushReply parsed;
    ASSERT_TRUE(parsed.ParseFromString(Flat(codec::EncodePushReply(reply, false))));
    ASSERT_EQ(parsed.SerializeAsString(), expected.SerializeAsString());
    const std::string theirs = expected.SerializeAsString();
    const auto pieces = random.Cut(theirs);
    const StatusOr<codec::CodedPushReply> decoded = codec::DecodePushReply(pieces);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->version, reply.version);
    EXPECT_EQ(decoded->duplicate, reply.duplicate);
    ASSERT_EQ(decoded->pulled.has_value(), reply.pulled.has_value());
    if (reply.pulled) ExpectSame(pieces, decoded->pulled->slices, reply.pulled->slices, false);
    ExpectSame(decoded->times, reply.times);
    const codec::AnswerHead head = codec::HeadOfPushReply(pieces);
    EXPECT_EQ(head.pulled, reply.pulled.has_value());
    EXPECT_EQ(head.version, reply.pulled ? 7 : reply.version);
    ExpectSame(head.times, reply.pulled ? reply.pulled->times : reply.times);
  }
}

TEST(TensorCodecTest, LargeContentsAreReferencedAndKept) {
  auto content = std::make_shared<std::string>(1 << 20, 'x');
  codec::CodedPush push;
  push.slices.resize(1);
  push.slices[0].variable = "w";
  push.slices[0].desc = {DType::kU8, Shape{1 << 20}};
  push.slices[0].data = content->data();
  push.slices[0].keep = content;
  codec::EncodedMessage message = codec::EncodePush(push);
  ASSERT_EQ(message.pieces.size(), 2u);
  EXPECT_EQ(message.pieces[1].data, content->data());
  push.slices.clear();
  {
    const grpc::ByteBuffer buffer = ToByteBuffer(std::move(message));
    EXPECT_EQ(content.use_count(), 2);  // the message and the buffer each hold a reference
    const ReceivedMessage received(buffer);
    const StatusOr<codec::CodedPush> decoded = codec::DecodePush(received.fragments());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    std::string copy(1 << 20, '\0');
    ASSERT_TRUE(codec::CopyContent(received.fragments(), decoded->slices[0], copy.data()).ok());
    EXPECT_EQ(copy, *content);
  }
  EXPECT_EQ(content.use_count(), 1);
}

TEST(TensorCodecTest, SaysWhatIsWrong) {
  struct Case {
    void (*spoil)(TensorProto*);
    const char* message;
  };
  const std::vector<Case> cases = {
      {[](TensorProto* t) { t->set_content("1234567"); },
       "the tensor data of the message have 7 bytes, but type and shape f32[2] need 8 bytes"},
      {[](TensorProto* t) { t->set_dims(0, -1); }, "slice 0 (w)"},
      {[](TensorProto* t) { t->set_dims(0, int64_t{1} << 62); }, "slice 0 (w)"},
      {[](TensorProto* t) { t->clear_dtype(); }, "slice 0 (w)"},
      {[](TensorProto* t) { t->set_dtype(static_cast<DataType>(77)); }, "slice 0 (w)"},
      {[](TensorProto* t) {
         for (int i = 0; i < 50; ++i) t->add_dims(1);
       },
       "slice 0 (w)"},
  };
  for (const Case& c : cases) {
    PushRequest push;
    SliceTensor* s = push.add_slice();
    s->set_variable("w");
    s->mutable_tensor()->set_dtype(F32);
    s->mutable_tensor()->add_dims(2);
    s->mutable_tensor()->set_content("12345678");
    c.spoil(s->mutable_tensor());
    const std::string bytes = push.SerializeAsString();
    const std::vector<std::span<const std::byte>> pieces = {
        {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}};
    const Status status = codec::DecodePush(pieces).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(TensorCodecTest, EveryFlippedBitOfAContentIsNoticed) {
  Random random(3);
  codec::CodedPush push;
  push.slices.push_back(random.Slice());
  push.slices[0].desc = {DType::kF32, Shape{16}};
  const std::string content = random.Bytes(64);
  push.slices[0].data = content.data();
  const std::string good = ToProto(push, true).SerializeAsString();
  const size_t begin = good.find(content);
  ASSERT_NE(begin, std::string::npos);
  for (size_t bit = 0; bit < 64 * 8; ++bit) {
    std::string bad = good;
    bad[begin + bit / 8] = static_cast<char>(bad[begin + bit / 8] ^ (1 << (bit % 8)));
    const auto pieces = random.Cut(bad);
    const StatusOr<codec::CodedPush> decoded = codec::DecodePush(pieces);
    ASSERT_TRUE(decoded.ok());
    char copy[64];
    EXPECT_EQ(codec::CopyContent(pieces, decoded->slices[0], copy).code(), StatusCode::kDataLoss);
  }
}

TEST(TensorCodecTest, MutatedBytesNeverCrashAndNeverReachOutside) {
  Random random(4);
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    const codec::CodedPush sent = random.Push();
    const std::string good =
        round % 2 == 0 ? ToProto(sent, true).SerializeAsString() : Flat(codec::EncodePush(sent));
    for (int mutation = 0; mutation < 100; ++mutation) {
      std::string bad = good;
      const auto size = static_cast<int64_t>(bad.size());
      if (random.Int(0, 3) == 0) bad.resize(static_cast<size_t>(random.Int(0, size)));
      for (int64_t n = random.Int(1, 4); n > 0 && !bad.empty(); --n) {
        bad[static_cast<size_t>(random.Int(0, static_cast<int64_t>(bad.size()) - 1))] =
            static_cast<char>(random.Int(0, 255));
      }
      // The copy has the exact size of the message, so that a sanitizer detects a read past the end
      // of the message.
      const std::vector<char> exact(bad.begin(), bad.end());
      const std::string copy(exact.begin(), exact.end());
      const auto pieces = random.Cut(copy);
      const StatusOr<codec::CodedPush> push = codec::DecodePush(pieces);
      (void)codec::DecodePullReply(pieces).status();
      (void)codec::DecodePushReply(pieces).status();
      (void)codec::HeadOfPushReply(pieces).version;
      (void)codec::HeadOfPullReply(pieces).version;
      if (!push.ok()) continue;
      ++accepted;
      for (const codec::CodedSlice& s : push->slices) {
        std::string content(s.desc.bytes(), '\0');
        (void)codec::CopyContent(pieces, s, content.data()).ok();
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 200000);
}

TEST(Crc32cTest, KnownValues) {
  // The expected values are from RFC 3720, appendix B.4.
  const std::string zeros(32, '\0'), ones(32, '\xff');
  EXPECT_EQ(Crc32c(0, zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(Crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
  EXPECT_EQ(Crc32(0, "123456789", 9), 0xcbf43926u);
  EXPECT_EQ(Crc32(Crc32(0, "1234", 4), "56789", 5), 0xcbf43926u);
}

TEST(Crc32cTest, LongOnesBitByBit) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(9400);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  for (const size_t begin : {0, 1, 5}) {
    uint32_t sum = ~0u;
    for (size_t i = begin; i < bytes.size(); ++i) {
      if (i % 512 < 3) {
        ASSERT_EQ(Crc32c(0, &bytes[begin], i - begin), ~sum) << begin << " .. " << i;
        ASSERT_EQ(Crc32c(~sum, &bytes[i], bytes.size() - i),
                  Crc32c(0, &bytes[begin], bytes.size() - begin));
      }
      sum ^= bytes[i];
      for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x82F63B78u : 0);
    }
  }
}

}  // namespace
}  // namespace tandem::rpc
