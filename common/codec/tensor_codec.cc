#include "common/codec/tensor_codec.h"

#include <bit>
#include <utility>

#include "common/base/crc32c.h"

namespace tandem::codec {
namespace {

// Field numbers of proto/pserver.proto and proto/tensor.proto.
enum TensorField : uint32_t { kDtype = 1, kDims = 2, kContent = 3, kCrc32c = 4 };
enum SliceField : uint32_t { kVariable = 1, kOffset = 2, kTensor = 3 };
enum PushField : uint32_t {
  kJob = 1,
  kTrainer = 2,
  kIncarnation = 3,
  kSequence = 4,
  kStep = 5,
  kRate = 6,
  kPushSlice = 7,
  kPull = 8,
  kGeneration = 9,
  kOriginServer = 10,
  kOriginSequence = 11,
  kSent = 12,
  kEnded = 13,
  kFinite = 14
};
enum ReplyField : uint32_t { kVersion = 1, kServerIncarnation = 2, kReplySlice = 3, kTimes = 4 };
enum PushReplyField : uint32_t {
  kDuplicate = 3,
  kPulled = 4,
  kPushTimes = 5,
  kLogNumber = 6,
  kKeptNumber = 7
};
enum TimesField : uint32_t { kReceived = 1, kAnswered = 2, kUpdateBegin = 3, kUpdateEnd = 4 };

constexpr size_t kNameBytesMax = 256;
constexpr size_t kSlicesMax = 1 << 20;
constexpr size_t kPullBytesMax = 64 << 20;
constexpr size_t kServersMax = 1 << 16;

constexpr uint32_t AsVarint(uint32_t field) { return WireTag(field, WireType::kVarint); }
constexpr uint32_t AsBytes(uint32_t field) { return WireTag(field, WireType::kBytes); }
constexpr uint32_t AsFixed32(uint32_t field) { return WireTag(field, WireType::kFixed32); }

// ---- Writing ------------------------------------------------------------------------------------

class Writer {
 public:
  std::string& head() { return head_; }

  void Slice(uint32_t field, const CodedSlice& s, bool crc32c) {
    std::string dims;
    for (int64_t d : s.desc.shape.dims()) PutVarint(dims, static_cast<uint64_t>(d));
    const uint64_t dtype = static_cast<uint64_t>(s.desc.dtype);
    const uint64_t offset = static_cast<uint64_t>(s.offset);
    const size_t content = s.desc.bytes();
    const size_t tensor = UintFieldSize(kDtype, dtype) + BytesFieldSize(kDims, dims.size()) +
                          BytesFieldSize(kContent, content) + (crc32c ? 5 : 0);
    const size_t slice = BytesFieldSize(kVariable, s.variable.size()) +
                         UintFieldSize(kOffset, offset) + BytesFieldSize(kTensor, tensor);
    PutVarint(head_, AsBytes(field));
    PutVarint(head_, slice);
    PutBytesField(head_, kVariable, s.variable);
    PutUintField(head_, kOffset, offset);
    PutVarint(head_, AsBytes(kTensor));
    PutVarint(head_, tensor);
    PutUintField(head_, kDtype, dtype);
    PutBytesField(head_, kDims, dims);
    Content(s, content);
    if (crc32c) {
      PutVarint(head_, AsFixed32(kCrc32c));
      PutFixed32(head_, Crc32c(0, s.data, content));
    }
  }

  EncodedMessage Finish() && {
    Flush();
    return std::move(message_);
  }

 private:
  void Content(const CodedSlice& s, size_t bytes) {
    if (bytes == 0) return;
    PutVarint(head_, AsBytes(kContent));
    PutVarint(head_, bytes);
    if (bytes < kReferenceBytesMin) {
      head_.append(static_cast<const char*>(s.data), bytes);
      return;
    }
    Flush();
    message_.pieces.push_back({"", s.data, bytes, s.keep});
  }
  void Flush() {
    if (!head_.empty()) message_.pieces.push_back({std::move(head_), nullptr, 0, nullptr});
    head_.clear();
  }

  EncodedMessage message_;
  std::string head_;
};

// Writes nothing if no times were measured.
void PutTimes(std::string& out, uint32_t field, const CodedTimes& times) {
  std::string inner;
  PutUintField(inner, kReceived, times.received);
  PutUintField(inner, kAnswered, times.answered);
  PutUintField(inner, kUpdateBegin, times.update_begin);
  PutUintField(inner, kUpdateEnd, times.update_end);
  PutBytesField(out, field, inner);
}

void PutNumbers(std::string& out, uint32_t field, const std::vector<uint64_t>& numbers) {
  std::string packed;
  for (const uint64_t number : numbers) PutVarint(packed, number);
  PutBytesField(out, field, packed);
}

// ---- Reading ------------------------------------------------------------------------------------

struct RawTensor {
  uint64_t dtype = 0;
  std::vector<int64_t> dims;
  ByteRange content;
  std::optional<uint32_t> crc32c;
};

void ReadDims(WireReader& in, uint32_t tag, std::vector<int64_t>& dims) {
  const bool packed = tag == AsBytes(kDims);
  const size_t entered = packed ? in.Enter() : 0;
  do {
    if (packed && in.done()) break;
    // One dimension more than allowed is enough for a later rejection.
    const uint64_t d = in.Varint();
    if (dims.size() <= static_cast<size_t>(Shape::kRankMax)) {
      dims.push_back(static_cast<int64_t>(d));
    }
  } while (packed);
  if (packed) in.Leave(entered);
}

void ReadNumbers(WireReader& in, bool packed, std::vector<uint64_t>& numbers) {
  const size_t entered = packed ? in.Enter() : 0;
  do {
    if (packed && in.done()) break;
    const uint64_t number = in.Varint();
    if (numbers.size() < kServersMax) numbers.push_back(number);
  } while (packed);
  if (packed) in.Leave(entered);
}

void ReadTensor(WireReader& in, RawTensor& t) {
  const size_t entered = in.Enter();
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsVarint(kDtype):
        t.dtype = in.Varint();
        break;
      case AsVarint(kDims):
      case AsBytes(kDims):
        ReadDims(in, tag, t.dims);
        break;
      case AsBytes(kContent):
        t.content = in.Range();
        break;
      case AsFixed32(kCrc32c):
        t.crc32c = in.Fixed32();
        break;
      default:
        in.Skip(tag);
    }
  }
  in.Leave(entered);
}

Status ToSlice(const RawTensor& t, CodedSlice& s) {
  TD_ASSIGN_OR_RETURN(s.desc.dtype,
                      DTypeFromNumber(t.dtype > 1000 ? -1 : static_cast<int>(t.dtype)));
  TD_ASSIGN_OR_RETURN(s.desc.shape, ParseShape(t.dims));
  if (t.content.bytes != s.desc.bytes()) {
    return InvalidArgument("the content has %d bytes, but %s needs %d bytes", t.content.bytes,
                           ToString(s.desc), s.desc.bytes());
  }
  s.content = t.content;
  s.crc32c = t.crc32c;
  return OkStatus();
}

Status ReadSlice(WireReader& in, std::vector<CodedSlice>& slices) {
  if (slices.size() >= kSlicesMax)
    return InvalidArgument("the message has more than %d slices, which is the maximum", kSlicesMax);
  CodedSlice s;
  RawTensor tensor;
  const size_t entered = in.Enter();
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsBytes(kVariable):
        s.variable = in.Bytes(kNameBytesMax);
        break;
      case AsVarint(kOffset):
        s.offset = static_cast<int64_t>(in.Varint());
        break;
      case AsBytes(kTensor):
        ReadTensor(in, tensor);
        break;
      default:
        in.Skip(tag);
    }
  }
  in.Leave(entered);
  if (!in.ok())
    return InvalidArgument("slice %d of the message is truncated or malformed", slices.size());
  if (Status status = ToSlice(tensor, s); !status.ok()) {
    return Annotate(status, absl::StrFormat("slice %d (%s)", slices.size(), s.variable));
  }
  slices.push_back(std::move(s));
  return OkStatus();
}

CodedTimes ReadTimes(WireReader& in) {
  CodedTimes times;
  const size_t entered = in.Enter();
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsVarint(kReceived):
        times.received = in.Varint();
        break;
      case AsVarint(kAnswered):
        times.answered = in.Varint();
        break;
      case AsVarint(kUpdateBegin):
        times.update_begin = in.Varint();
        break;
      case AsVarint(kUpdateEnd):
        times.update_end = in.Varint();
        break;
      default:
        in.Skip(tag);
    }
  }
  in.Leave(entered);
  return times;
}

// Reads to the end of the message in `in`: a PullReply, or a PushReply, which may contain a
// PullReply.
AnswerHead ReadHead(WireReader& in, bool push) {
  AnswerHead head, pulled;
  head.pulled = !push;
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    if (tag == AsVarint(kVersion)) {
      head.version = in.Varint();
    } else if (tag == AsBytes(push ? uint32_t{kPushTimes} : uint32_t{kTimes})) {
      head.times = ReadTimes(in);
    } else if (push && tag == AsBytes(kPulled)) {
      const size_t entered = in.Enter();
      pulled = ReadHead(in, /*push=*/false);
      in.Leave(entered);
    } else {
      in.Skip(tag);
    }
  }
  return pulled.pulled ? pulled : head;
}

// Reads to the end of the message in `in`.
StatusOr<CodedPullReply> ReadPullReply(WireReader& in) {
  CodedPullReply reply;
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsVarint(kVersion):
        reply.version = in.Varint();
        break;
      case AsVarint(kServerIncarnation):
        reply.server_incarnation = in.Varint();
        break;
      case AsBytes(kReplySlice):
        TD_RETURN_IF_ERROR(ReadSlice(in, reply.slices));
        break;
      case AsBytes(kTimes):
        reply.times = ReadTimes(in);
        break;
      default:
        in.Skip(tag);
    }
  }
  return reply;
}

}  // namespace

size_t EncodedMessage::bytes() const {
  size_t sum = 0;
  for (const Piece& p : pieces) sum += p.data != nullptr ? p.bytes : p.owned.size();
  return sum;
}

EncodedMessage EncodePush(const CodedPush& push, bool crc32c) {
  Writer writer;
  std::string& head = writer.head();
  PutBytesField(head, kJob, push.job);
  PutUintField(head, kTrainer, push.trainer_id);
  PutUintField(head, kIncarnation, push.incarnation);
  PutUintField(head, kSequence, push.sequence);
  PutUintField(head, kStep, push.step);
  if (const uint32_t bits = std::bit_cast<uint32_t>(push.learning_rate); bits != 0) {
    PutVarint(head, AsFixed32(kRate));
    PutFixed32(head, bits);
  }
  for (const CodedSlice& s : push.slices) writer.Slice(kPushSlice, s, crc32c);
  PutBytesField(writer.head(), kPull, push.pull);
  PutUintField(writer.head(), kGeneration, push.generation);
  PutUintField(writer.head(), kOriginServer, push.origin_server);
  PutUintField(writer.head(), kOriginSequence, push.origin_sequence);
  PutNumbers(writer.head(), kSent, push.sent);
  PutNumbers(writer.head(), kEnded, push.ended);
  PutUintField(writer.head(), kFinite, push.finite ? 1 : 0);
  return std::move(writer).Finish();
}

EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c) {
  Writer writer;
  PutUintField(writer.head(), kVersion, reply.version);
  PutUintField(writer.head(), kServerIncarnation, reply.server_incarnation);
  for (const CodedSlice& s : reply.slices) writer.Slice(kReplySlice, s, crc32c);
  PutTimes(writer.head(), kTimes, reply.times);
  return std::move(writer).Finish();
}

EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c) {
  EncodedMessage message;
  EncodedMessage pulled;
  std::string head;
  PutUintField(head, kVersion, reply.version);
  PutUintField(head, kServerIncarnation, reply.server_incarnation);
  PutUintField(head, kDuplicate, reply.duplicate ? 1 : 0);
  PutTimes(head, kPushTimes, reply.times);
  PutUintField(head, kLogNumber, reply.log_number);
  PutUintField(head, kKeptNumber, reply.kept_number);
  if (reply.pulled) {
    pulled = EncodePullReply(*reply.pulled, crc32c);
    PutVarint(head, AsBytes(kPulled));
    PutVarint(head, pulled.bytes());
  }
  message.pieces.push_back({std::move(head), nullptr, 0, nullptr});
  for (EncodedMessage::Piece& piece : pulled.pieces) message.pieces.push_back(std::move(piece));
  return message;
}

StatusOr<CodedPush> DecodePush(Fragments message) {
  CodedPush push;
  WireReader in(message);
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsBytes(kJob):
        push.job = in.Bytes(kNameBytesMax);
        break;
      case AsVarint(kTrainer):
        push.trainer_id = static_cast<uint32_t>(in.Varint());
        break;
      case AsVarint(kIncarnation):
        push.incarnation = in.Varint();
        break;
      case AsVarint(kSequence):
        push.sequence = in.Varint();
        break;
      case AsVarint(kStep):
        push.step = in.Varint();
        break;
      case AsFixed32(kRate):
        push.learning_rate = std::bit_cast<float>(in.Fixed32());
        break;
      case AsBytes(kPushSlice):
        TD_RETURN_IF_ERROR(ReadSlice(in, push.slices));
        break;
      case AsBytes(kPull):
        push.pull = in.Bytes(kPullBytesMax);
        break;
      case AsVarint(kGeneration):
        push.generation = in.Varint();
        break;
      case AsVarint(kOriginServer):
        push.origin_server = static_cast<uint32_t>(in.Varint());
        break;
      case AsVarint(kOriginSequence):
        push.origin_sequence = in.Varint();
        break;
      case AsVarint(kSent):
      case AsBytes(kSent):
        ReadNumbers(in, tag == AsBytes(kSent), push.sent);
        break;
      case AsVarint(kEnded):
      case AsBytes(kEnded):
        ReadNumbers(in, tag == AsBytes(kEnded), push.ended);
        break;
      case AsVarint(kFinite):
        push.finite = in.Varint() != 0;
        break;
      default:
        in.Skip(tag);
    }
  }
  if (!in.ok()) return InvalidArgument("the bytes are not a PushRequest (proto/pserver.proto)");
  return push;
}

StatusOr<CodedPullReply> DecodePullReply(Fragments message) {
  WireReader in(message);
  StatusOr<CodedPullReply> reply = ReadPullReply(in);
  if (!in.ok()) return InvalidArgument("the bytes are not a PullReply (proto/pserver.proto)");
  return reply;
}

StatusOr<CodedPushReply> DecodePushReply(Fragments message) {
  CodedPushReply reply;
  WireReader in(message);
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    switch (tag) {
      case AsVarint(kVersion):
        reply.version = in.Varint();
        break;
      case AsVarint(kServerIncarnation):
        reply.server_incarnation = in.Varint();
        break;
      case AsVarint(kDuplicate):
        reply.duplicate = in.Varint() != 0;
        break;
      case AsVarint(kLogNumber):
        reply.log_number = in.Varint();
        break;
      case AsVarint(kKeptNumber):
        reply.kept_number = in.Varint();
        break;
      case AsBytes(kPulled): {
        const size_t entered = in.Enter();
        TD_ASSIGN_OR_RETURN(reply.pulled, ReadPullReply(in));
        in.Leave(entered);
        break;
      }
      case AsBytes(kPushTimes):
        reply.times = ReadTimes(in);
        break;
      default:
        in.Skip(tag);
    }
  }
  if (!in.ok()) return InvalidArgument("the bytes are not a PushReply (proto/pserver.proto)");
  return reply;
}

AnswerHead HeadOfPushReply(Fragments message) {
  WireReader in(message);
  const AnswerHead head = ReadHead(in, /*push=*/true);
  return in.ok() ? head : AnswerHead();
}

AnswerHead HeadOfPullReply(Fragments message) {
  WireReader in(message);
  const AnswerHead head = ReadHead(in, /*push=*/false);
  return in.ok() ? head : AnswerHead();
}

Status CopyContent(Fragments message, const CodedSlice& slice, void* to) {
  CopyRange(message, slice.content, to);
  if (!slice.crc32c) return OkStatus();
  const uint32_t sum = Crc32c(0, to, slice.content.bytes);
  if (sum == *slice.crc32c) return OkStatus();
  return DataLoss(
      "%s at element %d is damaged: the CRC32C of the content is %08x, but the message says %08x",
      slice.variable, slice.offset, sum, *slice.crc32c);
}

const void* ContentInPlace(Fragments message, const CodedSlice& slice) {
  ByteRange at = slice.content;
  if (slice.crc32c || at.bytes == 0) return nullptr;
  while (at.offset == message[at.fragment].size()) at = {at.fragment + 1, 0, at.bytes};
  if (at.bytes > message[at.fragment].size() - at.offset) return nullptr;
  const std::byte* const data = message[at.fragment].data() + at.offset;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % SizeOf(slice.desc.dtype) == 0;
  return aligned ? data : nullptr;
}

}  // namespace tandem::codec
