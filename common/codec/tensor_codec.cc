#include "common/codec/tensor_codec.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/require.h"

namespace tandem::codec {
namespace {

constexpr size_t kNameBytesMax = 256;
constexpr size_t kSlicesMax = 1 << 20;
constexpr size_t kPullBytesMax = 64 << 20;
constexpr size_t kServersMax = 1 << 16;

// ---- Tables of fields ---------------------------------------------------------------------------

// A field of message M: its number in proto/pserver.proto or proto/tensor.proto, and its C++
// member. Reader and writer use the same tables of fields. The writer writes the fields in the
// order of the table.
template <typename Member>
struct Field {
  uint32_t number;
  Member member;    // pointer to a member of M, or a Path that begins at M
  size_t most = 0;  // maximum length: bytes of a string, or elements of a list
};
template <typename Member>
Field(uint32_t, Member, size_t = 0) -> Field<Member>;

// The path to a member of a nested struct. Only the C++ struct is nested: in the message, the
// fields of the nested struct are fields of M itself. `outer` may be a Path too.
template <typename Outer, typename Inner>
struct Path {
  Outer outer;
  Inner inner;
};
template <typename Outer, typename Inner>
Path(Outer, Inner) -> Path<Outer, Inner>;

template <typename M, typename T, typename Of>
auto& MemberOf(M& message, T Of::*member) {
  return message.*member;
}
template <typename M, typename Outer, typename Inner>
auto& MemberOf(M& message, const Path<Outer, Inner>& path) {
  return MemberOf(MemberOf(message, path.outer), path.inner);
}

template <typename M>
constexpr auto kFields = nullptr;

// The fields of a tensor message, as received and not yet checked.
struct RawTensor {
  uint64_t dtype = 0;
  std::vector<int64_t> dims;
  ByteRange content;
  std::optional<uint32_t> crc32c;
};
// Reads up to one dimension more than Shape allows, so that ParseShape rejects a shape that is too
// long.
template <>
constexpr auto kFields<RawTensor> =
    std::tuple{Field{1, &RawTensor::dtype}, Field{2, &RawTensor::dims, Shape::kRankMax + 1},
               Field{3, &RawTensor::content}, Field{4, &RawTensor::crc32c}};

// The fields of a slice message, as received and not yet checked.
struct RawSlice {
  std::string variable;
  int64_t offset = 0;
  RawTensor tensor;
};
template <>
constexpr auto kFields<RawSlice> =
    std::tuple{Field{1, &RawSlice::variable, kNameBytesMax}, Field{2, &RawSlice::offset},
               Field{3, &RawSlice::tensor}};

constexpr auto kHeader = &CodedPush::header;
constexpr Path kCaller{kHeader, &PushHeader::caller};
constexpr Path kNumbers{kHeader, &PushHeader::numbers};
template <>
constexpr auto kFields<CodedPush> =
    std::tuple{Field{1, Path{kCaller, &CallerId::job}, kNameBytesMax},
               Field{2, Path{kCaller, &CallerId::trainer}},
               Field{3, Path{kCaller, &CallerId::incarnation}},
               Field{4, Path{kHeader, &PushHeader::sequence}},
               Field{5, Path{kHeader, &PushHeader::step}},
               Field{6, Path{kHeader, &PushHeader::learning_rate}},
               Field{7, &CodedPush::slices},
               Field{8, &CodedPush::pull, kPullBytesMax},
               Field{9, Path{kHeader, &PushHeader::generation}},
               Field{10, Path{kHeader, &PushHeader::origin_server}},
               Field{11, Path{kHeader, &PushHeader::origin_sequence}},
               Field{12, Path{kNumbers, &SentNumbers::sent}, kServersMax},
               Field{13, Path{kNumbers, &SentNumbers::ended}, kServersMax},
               Field{14, Path{kHeader, &PushHeader::finite}},
               Field{15, Path{kHeader, &PushHeader::once}},
               Field{16, Path{kHeader, &PushHeader::event_time_ms}}};

template <>
constexpr auto kFields<CodedTimes> =
    std::tuple{Field{1, &CodedTimes::received}, Field{2, &CodedTimes::answered},
               Field{3, &CodedTimes::update_begin}, Field{4, &CodedTimes::update_end}};

template <>
constexpr auto kFields<CodedPullReply> =
    std::tuple{Field{1, &CodedPullReply::version}, Field{2, &CodedPullReply::server_incarnation},
               Field{3, &CodedPullReply::slices}, Field{4, &CodedPullReply::times}};

template <>
constexpr auto kFields<CodedPushReply> =
    std::tuple{Field{1, &CodedPushReply::version},    Field{2, &CodedPushReply::server_incarnation},
               Field{3, &CodedPushReply::duplicate},  Field{5, &CodedPushReply::times},
               Field{6, &CodedPushReply::log_number}, Field{7, &CodedPushReply::kept_number},
               Field{4, &CodedPushReply::pulled}};

// The fields of a reply that HeadOfPullReply reads. The reader skips all other fields of the reply.
struct PullReplyHead {
  uint64_t version = 0;
  CodedTimes times;
};
template <>
constexpr auto kFields<PullReplyHead> =
    std::tuple{Field{1, &PullReplyHead::version}, Field{4, &PullReplyHead::times}};

struct PushReplyHead {
  uint64_t version = 0;
  CodedTimes times;
  std::optional<PullReplyHead> pulled;
};
template <>
constexpr auto kFields<PushReplyHead> =
    std::tuple{Field{1, &PushReplyHead::version}, Field{5, &PushReplyHead::times},
               Field{4, &PushReplyHead::pulled}};

// Calls `visit` with each field of message M.
template <typename M, typename Visit>
void ForEachField(const Visit& visit) {
  std::apply([&visit](const auto&... field) { (visit(field), ...); }, kFields<M>);
}

constexpr uint32_t AsBytes(uint32_t field) { return WireTag(field, WireType::kBytes); }
constexpr uint32_t AsFixed32(uint32_t field) { return WireTag(field, WireType::kFixed32); }

// ---- Writing ------------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(bool crc32c) : crc32c_(crc32c) {}

  template <typename M>
  void Message(const M& message) {
    ForEachField<M>([&](const auto& field) { Put(field.number, MemberOf(message, field.member)); });
  }

  EncodedMessage Finish() && {
    Flush();
    return std::move(message_);
  }

 private:
  template <std::integral T>
  void Put(uint32_t field, T value) {
    PutUintField(head_, field, static_cast<uint64_t>(value));
  }
  void Put(uint32_t field, int value) {  // writes an int as a uint32 field
    PutUintField(head_, field, static_cast<uint32_t>(value));
  }
  void Put(uint32_t field, float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (bits == 0) return;
    PutVarint(head_, AsFixed32(field));
    PutFixed32(head_, bits);
  }
  void Put(uint32_t field, const std::string& bytes) { PutBytesField(head_, field, bytes); }
  void Put(uint32_t field, const std::vector<uint64_t>& numbers) {
    std::string packed;
    for (const uint64_t number : numbers) PutVarint(packed, number);
    PutBytesField(head_, field, packed);
  }
  // Writes the times of a server. Writes nothing if the server measured no times.
  void Put(uint32_t field, const CodedTimes& times) {
    Writer inner(crc32c_);
    inner.Message(times);
    PutBytesField(head_, field, inner.head_);
  }
  void Put(uint32_t field, const std::optional<CodedPullReply>& reply) {
    if (!reply) return;
    EncodedMessage inner = EncodePullReply(*reply, crc32c_);
    PutVarint(head_, AsBytes(field));
    PutVarint(head_, inner.bytes());
    Flush();
    for (EncodedMessage::Piece& piece : inner.pieces) message_.pieces.push_back(std::move(piece));
  }
  void Put(uint32_t field, const std::vector<CodedSlice>& slices) {
    for (const CodedSlice& slice : slices) Slice(field, slice);
  }
  // Writes the field `field` with the message of slice `s`. Writes a large content as a reference
  // to s.data, without a copy.
  void Slice(uint32_t field, const CodedSlice& s) {
    constexpr auto kSlice = kFields<RawSlice>;
    constexpr auto kTensor = kFields<RawTensor>;
    constexpr uint32_t kVariable = std::get<0>(kSlice).number, kOffset = std::get<1>(kSlice).number,
                       kTensorField = std::get<2>(kSlice).number,
                       kDtype = std::get<0>(kTensor).number, kDims = std::get<1>(kTensor).number,
                       kContent = std::get<2>(kTensor).number,
                       kCrc32c = std::get<3>(kTensor).number;
    TD_REQUIRE(s.data != nullptr || s.desc.bytes() == 0);
    std::string dims;
    for (int64_t d : s.desc.shape.dims()) PutVarint(dims, static_cast<uint64_t>(d));
    const uint64_t dtype = static_cast<uint64_t>(s.desc.dtype);
    const uint64_t offset = static_cast<uint64_t>(s.offset);
    const size_t content = s.desc.bytes();
    const size_t tensor = UintFieldSize(kDtype, dtype) + BytesFieldSize(kDims, dims.size()) +
                          BytesFieldSize(kContent, content) + (crc32c_ ? 5 : 0);
    const size_t slice = BytesFieldSize(kVariable, s.variable.size()) +
                         UintFieldSize(kOffset, offset) + BytesFieldSize(kTensorField, tensor);
    PutVarint(head_, AsBytes(field));
    PutVarint(head_, slice);
    PutBytesField(head_, kVariable, s.variable);
    PutUintField(head_, kOffset, offset);
    PutVarint(head_, AsBytes(kTensorField));
    PutVarint(head_, tensor);
    PutUintField(head_, kDtype, dtype);
    PutBytesField(head_, kDims, dims);
    Content(kContent, s, content);
    if (crc32c_) {
      PutVarint(head_, AsFixed32(kCrc32c));
      PutFixed32(head_, Crc32c(0, s.data, content));
    }
  }
  void Content(uint32_t field, const CodedSlice& s, size_t bytes) {
    if (bytes == 0) return;
    PutVarint(head_, AsBytes(field));
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

  const bool crc32c_;
  EncodedMessage message_;
  std::string head_;
};

// ---- Reading ------------------------------------------------------------------------------------

template <typename M>
Status ReadMessage(WireReader& in, M& message);

// Reads the value of a field into `value`. `type` is the field's wire type in the message.
template <std::integral T>
Status ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/, T& value) {
  const uint64_t number = in.Varint();
  value = std::is_same_v<T, bool> ? number != 0 : static_cast<T>(number);
  return OkStatus();
}
// Reads a uint32. A value above INT_MAX becomes INT_MAX.
Status ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/, int& value) {
  value = static_cast<int>(std::min<uint32_t>(static_cast<uint32_t>(in.Varint()), INT32_MAX));
  return OkStatus();
}
Status ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/, float& value) {
  value = std::bit_cast<float>(in.Fixed32());
  return OkStatus();
}
Status ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/,
                 std::optional<uint32_t>& value) {
  value = in.Fixed32();
  return OkStatus();
}
Status ReadValue(WireReader& in, WireType /*type*/, size_t most, std::string& value) {
  value = in.Bytes(most);
  return OkStatus();
}
Status ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/, ByteRange& value) {
  value = in.Range();
  return OkStatus();
}
// Reads all elements of a list, but stores only the first `most` elements.
template <std::integral T>
Status ReadValue(WireReader& in, WireType type, size_t most, std::vector<T>& list) {
  const auto read_one = [&] {
    const uint64_t number = in.Varint();
    if (list.size() < most) list.push_back(static_cast<T>(number));
  };
  if (type != WireType::kBytes) {
    read_one();
    return OkStatus();
  }
  const size_t entered = in.Enter();  // kBytes: the list is packed
  while (!in.done()) read_one();
  in.Leave(entered);
  return OkStatus();
}
template <typename M>
requires(!std::is_same_v<std::remove_cv_t<decltype(kFields<M>)>, std::nullptr_t>) Status
    ReadValue(WireReader& in, WireType /*type*/, size_t /*most*/, M& message) {
  // If a field occurs several times, a RawTensor is merged with the earlier one, and any other
  // message replaces the earlier one.
  if constexpr (!std::is_same_v<M, RawTensor>) message = M();
  const size_t entered = in.Enter();
  TD_RETURN_IF_ERROR(ReadMessage(in, message));
  in.Leave(entered);
  return OkStatus();
}
template <typename M>
Status ReadValue(WireReader& in, WireType type, size_t most, std::optional<M>& message) {
  return ReadValue(in, type, most, message.emplace());
}

Status ToSlice(const RawSlice& raw, CodedSlice& s) {
  const RawTensor& t = raw.tensor;
  TD_ASSIGN_OR_RETURN(s.desc.dtype,
                      DTypeFromNumber(t.dtype > 1000 ? -1 : static_cast<int>(t.dtype)));
  TD_ASSIGN_OR_RETURN(s.desc.shape, ParseShape(t.dims));
  if (t.content.bytes != s.desc.bytes()) {
    return InvalidArgument(
        "the tensor data of the message have %d bytes, but type and shape %s need %d bytes",
        t.content.bytes, ToString(s.desc), s.desc.bytes());
  }
  s.offset = raw.offset;
  s.content = t.content;
  s.crc32c = t.crc32c;
  return OkStatus();
}

Status ReadValue(WireReader& in, WireType type, size_t most, std::vector<CodedSlice>& slices) {
  if (slices.size() >= kSlicesMax)
    return InvalidArgument("the message has more than %d slices, which is the maximum", kSlicesMax);
  RawSlice raw;
  TD_RETURN_IF_ERROR(ReadValue(in, type, most, raw));
  if (!in.ok())
    return InvalidArgument("slice %d of the message is truncated or malformed", slices.size());
  CodedSlice s;
  if (Status status = ToSlice(raw, s); !status.ok()) {
    return Annotate(status, absl::StrFormat("slice %d (%s)", slices.size(), raw.variable));
  }
  s.variable = std::move(raw.variable);
  slices.push_back(std::move(s));
  return OkStatus();
}

// Returns whether the reader accepts the wire type `type` for a member of type T.
template <typename T>
constexpr bool Accepts(WireType type) {
  if constexpr (std::is_integral_v<T>) return type == WireType::kVarint;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::optional<uint32_t>>) {
    return type == WireType::kFixed32;
  }
  if constexpr (std::is_same_v<T, std::vector<uint64_t>> ||
                std::is_same_v<T, std::vector<int64_t>>) {
    return type == WireType::kBytes || type == WireType::kVarint;
  }
  return type == WireType::kBytes;
}

// Reads the fields of `message` up to its end in `in`. Skips fields that are not in the table.
template <typename M>
Status ReadMessage(WireReader& in, M& message) {
  while (!in.done()) {
    const uint32_t tag = in.Tag();
    const uint32_t number = tag >> 3;
    const auto type = static_cast<WireType>(tag & 7);
    bool known = false;
    Status status;
    ForEachField<M>([&](const auto& field) {
      auto& member = MemberOf(message, field.member);
      if (field.number != number || !Accepts<std::remove_reference_t<decltype(member)>>(type))
        return;
      known = true;
      status = ReadValue(in, type, field.most, member);
    });
    TD_RETURN_IF_ERROR(status);
    if (!known) in.Skip(tag);
  }
  return OkStatus();
}

}  // namespace

size_t EncodedMessage::bytes() const {
  size_t sum = 0;
  for (const Piece& p : pieces) sum += p.data != nullptr ? p.bytes : p.owned.size();
  return sum;
}

EncodedMessage EncodePush(const CodedPush& push) {
  Writer writer(/*crc32c=*/false);
  writer.Message(push);
  return std::move(writer).Finish();
}

EncodedMessage EncodePullReply(const CodedPullReply& reply, bool crc32c) {
  Writer writer(crc32c);
  writer.Message(reply);
  return std::move(writer).Finish();
}

EncodedMessage EncodePushReply(const CodedPushReply& reply, bool crc32c) {
  Writer writer(crc32c);
  writer.Message(reply);
  return std::move(writer).Finish();
}

StatusOr<CodedPush> DecodePush(Fragments message) {
  CodedPush push;
  WireReader in(message);
  TD_RETURN_IF_ERROR(ReadMessage(in, push));
  if (!in.ok()) return InvalidArgument("the bytes are not a PushRequest (proto/pserver.proto)");
  return push;
}

StatusOr<CodedPullReply> DecodePullReply(Fragments message) {
  CodedPullReply reply;
  WireReader in(message);
  const Status status = ReadMessage(in, reply);
  if (!in.ok()) return InvalidArgument("the bytes are not a PullReply (proto/pserver.proto)");
  TD_RETURN_IF_ERROR(status);
  return reply;
}

StatusOr<CodedPushReply> DecodePushReply(Fragments message) {
  CodedPushReply reply;
  WireReader in(message);
  TD_RETURN_IF_ERROR(ReadMessage(in, reply));
  if (!in.ok()) return InvalidArgument("the bytes are not a PushReply (proto/pserver.proto)");
  return reply;
}

AnswerHead HeadOfPushReply(Fragments message) {
  PushReplyHead head;
  WireReader in(message);
  if (!ReadMessage(in, head).ok() || !in.ok()) return {};
  if (head.pulled) return {head.pulled->version, true, head.pulled->times};
  return {head.version, false, head.times};
}

AnswerHead HeadOfPullReply(Fragments message) {
  PullReplyHead head;
  WireReader in(message);
  if (!ReadMessage(in, head).ok() || !in.ok()) return {};
  return {head.version, true, head.times};
}

Status CopyContent(Fragments message, const CodedSlice& slice, void* to) {
  TD_REQUIRE(slice.content.bytes == slice.desc.bytes());
  CopyRange(message, slice.content, to);
  if (!slice.crc32c) return OkStatus();
  const uint32_t sum = Crc32c(0, to, slice.content.bytes);
  if (sum == *slice.crc32c) return OkStatus();
  return DataLoss(
      "the slice of %s that starts at element %d is damaged: the CRC32C of the content is %08x, "
      "but the message says %08x",
      slice.variable, slice.offset, sum, *slice.crc32c);
}

const void* ContentInPlace(Fragments message, const CodedSlice& slice) {
  TD_REQUIRE(slice.content.bytes == slice.desc.bytes());
  ByteRange at = slice.content;
  if (slice.crc32c || at.bytes == 0) return nullptr;
  while (at.offset == message[at.fragment].size()) at = {at.fragment + 1, 0, at.bytes};
  if (at.bytes > message[at.fragment].size() - at.offset) return nullptr;
  const std::byte* const data = message[at.fragment].data() + at.offset;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % SizeOf(slice.desc.dtype) == 0;
  return aligned ? data : nullptr;
}

}  // namespace tandem::codec
