// Fuzz target: messages that pservers and trainers decode without a library. The target decodes the
// same bytes as a push, as the reply to a push and as the reply to a pull, each in one piece and in
// two pieces.
#include "common/base/check.h"
#include "common/codec/tensor_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

std::string BytesOf(const codec::EncodedMessage& message) {
  std::string bytes;
  for (const codec::EncodedMessage::Piece& piece : message.pieces) {
    piece.data == nullptr ? bytes.append(piece.owned)
                          : bytes.append(static_cast<const char*>(piece.data), piece.bytes);
  }
  return bytes;
}

void ReadContents(codec::Fragments message, const std::vector<codec::CodedSlice>& slices) {
  for (const codec::CodedSlice& slice : slices) {
    CHECK_EQ(slice.content.bytes, slice.desc.bytes());
    std::string content(slice.desc.bytes(), '\0');
    const Status status = codec::CopyContent(message, slice, content.data());
    CHECK(status.ok() || status.code() == StatusCode::kDataLoss) << status;
    codec::ContentInPlace(message, slice);
  }
}

bool Decodes(codec::Fragments message) {
  codec::HeadOfPushReply(message);
  codec::HeadOfPullReply(message);
  const auto push = codec::DecodePush(message);
  if (push.ok()) ReadContents(message, push->slices);
  const auto pulled = codec::DecodePullReply(message);
  if (pulled.ok()) ReadContents(message, pulled->slices);
  const auto pushed = codec::DecodePushReply(message);
  if (pushed.ok() && pushed->pulled) ReadContents(message, pushed->pulled->slices);
  for (const Status& status : {push.status(), pulled.status(), pushed.status()}) {
    CHECK(status.ok() || !status.message().empty());
  }
  return push.ok() || pulled.ok() || pushed.ok();
}

bool Accepts(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  const bool whole = Decodes({&bytes, 1});
  const std::span<const std::byte> halves[] = {bytes.first(bytes.size() / 2),
                                               bytes.subspan(bytes.size() / 2)};
  CHECK_EQ(Decodes(halves), whole) << "the answer depends on where the bytes are cut";
  return whole;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  static const float kValues[] = {1, 2, 3, 4};
  codec::CodedSlice slice;
  slice.variable = "fc_0.w";
  slice.offset = 4;
  slice.desc = {DType::kF32, {2, 2}};
  slice.data = kValues;
  codec::CodedPush push{{{"job", 1, 99}, 5, 6, 0.25f, 1, 1, 3}, {slice}, "pull"};
  codec::CodedPullReply pulled{7, 8, {slice, slice}, {1, 2, 3, 4}};
  codec::CodedPushReply pushed{7, 8, true, pulled, {1, 2, 3, 4}};
  return {{BytesOf(codec::EncodePush(push)), BytesOf(codec::EncodePullReply(pulled, true)),
           BytesOf(codec::EncodePushReply(pushed, true))},
          {"fc_0.w", "\x0a", "\x12"},
          Accepts};
}

}  // namespace tandem
