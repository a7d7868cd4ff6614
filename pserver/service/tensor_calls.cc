#include "pserver/service/tensor_calls.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

uint64_t Microseconds(Time t) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count());
}

// The data that the reply to one call needs. The callback of the shard owns a copy, because the
// shard or the log may call back after TensorCalls is destroyed.
struct Call {
  uint64_t server_incarnation;
  const Clock& clock;  // clock of the shard
  Time received = clock.Now();

  codec::CodedTimes Times(const UpdateTime& update) const {
    return {Microseconds(received), Microseconds(clock.Now()), Microseconds(update.begin),
            Microseconds(update.end)};
  }
  codec::CodedPullReply Coded(const PullResult& result) const;
};

codec::CodedPullReply Call::Coded(const PullResult& result) const {
  codec::CodedPullReply coded{result.version, result.server_incarnation, {}, Times(result.update)};
  for (const PulledSlice& s : result.slices) {
    codec::CodedSlice slice;
    slice.variable = s.variable;
    slice.offset = s.offset;
    slice.desc = {DType::kF32, s.dim == 0 ? Shape{s.numel} : Shape{s.numel / s.dim, s.dim}};
    slice.data = reinterpret_cast<const float*>(s.values.get()) + s.first;
    slice.keep = s.values;
    coded.slices.push_back(std::move(slice));
  }
  return coded;
}

}  // namespace

bool AsksForRowsAlone(codec::Fragments request) {
  using google::protobuf::internal::WireFormatLite;
  // Number of bytes to search. The fields before the rows are short, so this number is enough.
  constexpr size_t kLook = 512;
  if (request.empty()) return false;
  const auto first = request[0].first(std::min(kLook, request[0].size()));
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(first.data()),
                                            static_cast<int>(first.size()));
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    if (field == PullRequest::kRowsFieldNumber) return true;
    if (field == PullRequest::kRangeFieldNumber) return false;
    if (!WireFormatLite::SkipField(&in, tag)) return false;
  }
  return false;
}

StatusOr<PushOutcome> TensorCalls::TakePush(codec::Fragments message,
                                            const codec::CodedPush& push) {
  PushHead head{push.header, {}};
  std::vector<const void*> in_place;
  for (const codec::CodedSlice& s : push.slices) {
    head.slices.push_back({s.variable, s.offset, s.desc});
    in_place.push_back(codec::ContentInPlace(message, s));
  }
  TD_ASSIGN_OR_RETURN(PushTicket ticket, shard_.AdmitPush(head, in_place));
  for (size_t i = 0; i < ticket.buffers.size(); ++i) {
    if (!ticket.buffers[i].owned()) continue;
    TD_RETURN_IF_ERROR(
        codec::CopyContent(message, push.slices[i], ticket.buffers[i].mutable_data()));
  }
  return shard_.Push(head, std::move(ticket));
}

void TensorCalls::Push(codec::Fragments request, Answer answer, const void* tag) {
  const Call call{server_incarnation_, deadlines_.clock()};
  const StatusOr<codec::CodedPush> push = codec::DecodePush(request);
  PullRequest pull;
  Status status = push.status();
  if (status.ok() && !push->pull.empty() && !pull.ParseFromString(push->pull)) {
    status = InvalidArgument("the field PushRequest.pull is not a PullRequest");
  }
  if (status.ok() && !push->pull.empty()) status = CheckTimeout(pull.timeout_ms());
  StatusOr<PushOutcome> pushed = PushOutcome();
  if (status.ok()) {
    pushed = TakePush(request, *push);
    status = pushed.status();
  }
  if (!status.ok()) return answer(status, {});
  codec::CodedPushReply reply{pushed->version, server_incarnation_, pushed->duplicate, {}};
  reply.log_number = pushed->log_number;
  reply.kept_number = pushed->kept_number;
  if (push->pull.empty()) {
    return shard_.WhenLogged([call, update = pushed->update, answer = std::move(answer),
                              reply](const Status& written) mutable {
      reply.times = call.Times(update);
      answer(written, codec::EncodePushReply(reply, false));
    });
  }
  StartPull(
      push->header.caller, pull,
      [&shard = shard_, call, reply, crc32c = pull.crc32c(),
       answer = std::move(answer)](const StatusOr<PullResult>& result) mutable {
        if (result.status().code() == StatusCode::kOutOfRange) {
          // kOutOfRange: the elements to pull have moved. The server has accepted the push, so it
          // replies to the push and leaves out the pull.
          return shard.WhenLogged([answer = std::move(answer), reply](const Status& written) {
            answer(written, codec::EncodePushReply(reply, false));
          });
        }
        if (!result.ok()) return answer(result.status(), {});
        reply.pulled = call.Coded(*result);
        answer(OkStatus(), codec::EncodePushReply(reply, crc32c));
      },
      tag);
}

void TensorCalls::StartPull(const CallerId& caller, const PullRequest& pull,
                            Shard::Done<PullResult> done, const void* tag) {
  PullQuery query{caller, pull.observer(), pull.min_version(), {}, pull.min_step(), {}, {}};
  if (pull.has_at_version()) query.at_version = pull.at_version();
  for (const SliceRange& r : pull.range()) {
    query.ranges.push_back({r.variable(), r.offset(), r.numel()});
  }
  for (const RowsRange& r : pull.rows()) {
    query.rows.push_back({r.variable(), {r.id().begin(), r.id().end()}});
  }
  const Time deadline = deadlines_.After(pull.timeout_ms());
  shard_.Pull(query, deadline, std::move(done), tag);
  deadlines_.Poke(deadline);
}

void TensorCalls::Pull(codec::Fragments request, Answer answer, const void* tag, bool reader) {
  const Call call{server_incarnation_, deadlines_.clock()};
  PullRequest pull;
  if (Status status = rpc::ParseMessage(request, &pull); !status.ok()) return answer(status, {});
  if (Status status = CheckTimeout(pull.timeout_ms()); !status.ok()) return answer(status, {});
  if (observers_only_ && !pull.observer()) {
    return answer(
        FailedPrecondition(
            "this server is a replica, which only readers may call [TD4033]; hint: trainers use "
            "the address of the replica's primary"),
        {});
  }
  if (reader && !pull.observer()) {
    return answer(
        PermissionDenied(
            "Pull: a caller with role reader must set observer, because it is no trainer [TD6009]; "
            "hint: read with tandem.ps.Reader, tandem read or tandem follow"),
        {});
  }
  StartPull(
      CallerOf(pull), pull,
      [call, crc32c = pull.crc32c(),
       answer = std::move(answer)](const StatusOr<PullResult>& result) {
        if (!result.ok()) return answer(result.status(), {});
        answer(OkStatus(), codec::EncodePullReply(call.Coded(*result), crc32c));
      },
      tag);
}

}  // namespace tandem::pserver
