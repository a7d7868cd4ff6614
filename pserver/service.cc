#include "pserver/service.h"

#include <algorithm>
#include <utility>

#include "common/rpc/byte_buffer.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/tensor_codec.h"
#include "common/rpc/token.h"
#include "proto/pserver.grpc.pb.h"
#include "pserver/proto_convert.h"

namespace tandem {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr uint32_t kProtocol = 1;

// Push and Pull carry tensors and are read and written by hand, the rest goes through protobuf.
using Plain = ParameterServer::WithCallbackMethod_Configure<
    ParameterServer::WithCallbackMethod_InitParams<ParameterServer::WithCallbackMethod_WaitInit<
        ParameterServer::WithCallbackMethod_Barrier<ParameterServer::WithCallbackMethod_Complete<
            ParameterServer::WithCallbackMethod_GetStatus<
                ParameterServer::WithCallbackMethod_SaveCheckpoint<
                    ParameterServer::WithCallbackMethod_RestoreCheckpoint<
                        ParameterServer::WithCallbackMethod_PullState<
                            ParameterServer::Service>>>>>>>>>;
using Base =
    ParameterServer::WithRawCallbackMethod_Push<ParameterServer::WithRawCallbackMethod_Pull<Plain>>;

template <typename Request>
Caller CallerOf(const Request& r) {
  return {r.job(), static_cast<int>(std::min<uint32_t>(r.trainer_id(), INT32_MAX)),
          r.incarnation()};
}

Time DeadlineAfter(uint64_t timeout_ms) {
  constexpr uint64_t kMsMax = uint64_t{24} * 3600 * 1000;
  return SteadyNow() + std::chrono::milliseconds(std::clamp<uint64_t>(timeout_ms, 1, kMsMax));
}

class PserverService final : public Base {
 public:
  PserverService(PserverServiceOptions options, Shard& shard, Runner& workers,
                 DeadlineDriver& deadlines)
      : options_(std::move(options)), shard_(shard), workers_(workers), deadlines_(deadlines) {}

  ServerUnaryReactor* Configure(CallbackServerContext* context, const ConfigureRequest* request,
                                ConfigureReply* reply) override {
    return Work(context, [this, request, reply] { return DoConfigure(*request, reply); });
  }
  ServerUnaryReactor* InitParams(CallbackServerContext* context, const InitParamsRequest* request,
                                 InitParamsReply* reply) override {
    return Work(context, [this, request, reply] { return DoInitParams(*request, reply); });
  }
  ServerUnaryReactor* WaitInit(CallbackServerContext* context, const WaitInitRequest* request,
                               WaitInitReply* reply) override;
  ServerUnaryReactor* Push(CallbackServerContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override {
    return Work(context, [this, request, reply] { return DoPush(*request, reply); });
  }
  ServerUnaryReactor* Pull(CallbackServerContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override;
  ServerUnaryReactor* Barrier(CallbackServerContext* context, const BarrierRequest* request,
                              BarrierReply*) override;
  ServerUnaryReactor* Complete(CallbackServerContext* context, const CompleteRequest* request,
                               CompleteReply* reply) override {
    return Work(context, [this, request, reply]() -> Status {
      TD_ASSIGN_OR_RETURN(const int left, shard_.Complete(CallerOf(*request)));
      reply->set_trainers_left(static_cast<uint32_t>(left));
      return OkStatus();
    });
  }
  ServerUnaryReactor* GetStatus(CallbackServerContext* context, const StatusRequest*,
                                StatusReply* reply) override {
    return Work(context, [this, reply] { return DoGetStatus(reply); });
  }
  ServerUnaryReactor* SaveCheckpoint(CallbackServerContext* context,
                                     const SaveCheckpointRequest* request,
                                     SaveCheckpointReply* reply) override {
    return Work(context, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      TD_ASSIGN_OR_RETURN(const auto saved, options_.save());
      reply->set_version(saved.first);
      reply->set_bytes(saved.second);
      return OkStatus();
    });
  }
  ServerUnaryReactor* RestoreCheckpoint(CallbackServerContext* context,
                                        const RestoreCheckpointRequest* request,
                                        RestoreCheckpointReply* reply) override {
    return Work(context, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      TD_ASSIGN_OR_RETURN(const uint64_t version, options_.restore());
      reply->set_version(version);
      return OkStatus();
    });
  }
  ServerUnaryReactor* PullState(CallbackServerContext* context, const PullStateRequest* request,
                                PullStateReply* reply) override {
    return Work(context, [this, request, reply]() -> Status {
      TD_ASSIGN_OR_RETURN(const auto state,
                          shard_.PullState(request->job(), {request->variable().begin(),
                                                            request->variable().end()}));
      reply->set_version(state.first);
      for (const SlotValues& slot : state.second) ToProto(slot, reply->add_slot());
      return OkStatus();
    });
  }

 private:
  Status CheckToken(const CallbackServerContext& context) const;
  Status CheckJob(const std::string& job) const;
  // Runs `body`, which answers the call by itself, on a worker.
  ServerUnaryReactor* Hand(CallbackServerContext* context,
                           std::function<void(ServerUnaryReactor*)> body);
  // Runs `body` on a worker and answers with its status.
  ServerUnaryReactor* Work(CallbackServerContext* context, std::function<Status()> body) {
    return Hand(context, [body = std::move(body)](ServerUnaryReactor* reactor) {
      reactor->Finish(ToGrpc(body()));
    });
  }

  Status DoConfigure(const ConfigureRequest& request, ConfigureReply* reply);
  Status DoInitParams(const InitParamsRequest& request, InitParamsReply* reply);
  Status DoPush(const ByteBuffer& request, ByteBuffer* reply);
  Status DoGetStatus(StatusReply* reply);
  void AnswerPull(const StatusOr<PullResult>& result, bool crc32c, ByteBuffer* reply,
                  ServerUnaryReactor* reactor) const;

  const PserverServiceOptions options_;
  Shard& shard_;
  Runner& workers_;
  DeadlineDriver& deadlines_;
};

Status PserverService::CheckToken(const CallbackServerContext& context) const {
  if (options_.secret.empty()) return OkStatus();
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kTokenMetadata);
  if (it == metadata.end()) {
    return Unauthenticated(
        "this server asks for the job's token (metadata %s); does the caller "
        "have the secret file?",
        kTokenMetadata);
  }
  // The token depends on the job that is served; before the first Configure on the one it says.
  const std::string job = shard_.Job();
  const std::string_view got(it->second.data(), it->second.size());
  if (TokensEqual(got, JobToken(options_.secret, job))) return OkStatus();
  return Unauthenticated("wrong token for job \"%s\": another secret or another job", job);
}

Status PserverService::CheckJob(const std::string& job) const {
  const std::string mine = shard_.Job();
  if (job == mine) return OkStatus();
  return FailedPrecondition("job \"%s\": this server serves job \"%s\"", job, mine);
}

ServerUnaryReactor* PserverService::Hand(CallbackServerContext* context,
                                         std::function<void(ServerUnaryReactor*)> body) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Status status = CheckToken(*context); !status.ok()) {
    reactor->Finish(ToGrpc(status));
    return reactor;
  }
  const Status posted = workers_.Post([context, reactor, body = std::move(body)] {
    // Nobody waits for the answer of a call that was given up while it stood in the queue.
    if (context->IsCancelled()) {
      reactor->Finish(ToGrpc(Cancelled("the call ended before its turn came; nothing was done")));
    } else {
      body(reactor);
    }
  });
  if (!posted.ok()) reactor->Finish(ToGrpc(posted));
  return reactor;
}

Status PserverService::DoConfigure(const ConfigureRequest& request, ConfigureReply* reply) {
  if (request.protocol() != kProtocol) {
    return FailedPrecondition("the client speaks protocol %d, this server %d", request.protocol(),
                              kProtocol);
  }
  TD_ASSIGN_OR_RETURN(const ShardConfig config, FromProto(request));
  TD_ASSIGN_OR_RETURN(const ConfigureResult result, shard_.Configure(CallerOf(request), config));
  reply->set_protocol(kProtocol);
  reply->set_server_incarnation(result.server_incarnation);
  reply->set_initialised(result.initialised);
  reply->set_restored(result.restored);
  reply->set_version(result.version);
  return OkStatus();
}

Status PserverService::DoInitParams(const InitParamsRequest& request, InitParamsReply* reply) {
  std::vector<SliceValues> params;
  for (const SliceTensor& slice : request.param()) {
    TD_ASSIGN_OR_RETURN(SliceValues values, FromProto(slice));
    params.push_back(std::move(values));
  }
  std::vector<SlotValues> slots;
  for (const SlotTensor& slot : request.slot()) {
    TD_ASSIGN_OR_RETURN(SlotValues values, FromProto(slot));
    slots.push_back(std::move(values));
  }
  TD_ASSIGN_OR_RETURN(const bool initialised,
                      shard_.InitParams(CallerOf(request), request.version(), params, slots));
  reply->set_initialised(initialised);
  reply->set_version(request.version());
  return OkStatus();
}

ServerUnaryReactor* PserverService::WaitInit(CallbackServerContext* context,
                                             const WaitInitRequest* request, WaitInitReply* reply) {
  return Hand(context, [this, request, reply](ServerUnaryReactor* reactor) {
    shard_.WaitInit(CallerOf(*request), DeadlineAfter(request->timeout_ms()),
                    [reply, reactor](StatusOr<uint64_t> version) {
                      if (version.ok()) reply->set_version(*version);
                      reactor->Finish(ToGrpc(version.status()));
                    });
    deadlines_.Poke();
  });
}

ServerUnaryReactor* PserverService::Barrier(CallbackServerContext* context,
                                            const BarrierRequest* request, BarrierReply*) {
  return Hand(context, [this, request](ServerUnaryReactor* reactor) {
    shard_.Barrier(CallerOf(*request), request->name(), request->generation(),
                   DeadlineAfter(request->timeout_ms()),
                   [reactor](Status status) { reactor->Finish(ToGrpc(status)); });
    deadlines_.Poke();
  });
}

Status PserverService::DoPush(const ByteBuffer& request, ByteBuffer* reply) {
  const ReceivedMessage message(request);
  TD_ASSIGN_OR_RETURN(const CodedPush push, DecodePush(message.fragments()));
  PushHead head;
  head.caller = {push.job, static_cast<int>(std::min<uint32_t>(push.trainer_id, INT32_MAX)),
                 push.incarnation};
  head.sequence = push.sequence;
  head.step = push.step;
  head.learning_rate = push.learning_rate;
  for (const CodedSlice& s : push.slices) head.slices.push_back({s.variable, s.offset, s.desc});
  TD_ASSIGN_OR_RETURN(PushTicket ticket, shard_.AdmitPush(head));
  for (size_t i = 0; i < ticket.buffers.size(); ++i) {
    TD_RETURN_IF_ERROR(CopyContent(message.fragments(), push.slices[i], ticket.buffers[i].get()));
  }
  TD_ASSIGN_OR_RETURN(const PushOutcome result, shard_.Push(head, std::move(ticket)));
  PushReply answer;
  answer.set_version(result.version);
  answer.set_server_incarnation(options_.server_incarnation);
  answer.set_duplicate(result.duplicate);
  *reply = SerializeMessage(answer);
  return OkStatus();
}

ServerUnaryReactor* PserverService::Pull(CallbackServerContext* context, const ByteBuffer* request,
                                         ByteBuffer* reply) {
  return Hand(context, [this, request, reply](ServerUnaryReactor* reactor) {
    PullRequest pull;
    if (Status status = ParseMessage(*request, &pull); !status.ok()) {
      reactor->Finish(ToGrpc(status));
      return;
    }
    PullQuery query{CallerOf(pull), pull.observer(), pull.min_version(), {}};
    for (const SliceRange& r : pull.range()) {
      query.ranges.push_back({r.variable(), r.offset(), r.numel()});
    }
    shard_.Pull(query, DeadlineAfter(pull.timeout_ms()),
                [this, crc32c = pull.crc32c(), reply, reactor](StatusOr<PullResult> result) {
                  AnswerPull(result, crc32c, reply, reactor);
                });
    deadlines_.Poke();
  });
}

void PserverService::AnswerPull(const StatusOr<PullResult>& result, bool crc32c, ByteBuffer* reply,
                                ServerUnaryReactor* reactor) const {
  if (!result.ok()) {
    reactor->Finish(ToGrpc(result.status()));
    return;
  }
  CodedPullReply coded{result->version, options_.server_incarnation, {}};
  for (const PulledSlice& s : result->slices) {
    CodedSlice slice;
    slice.variable = s.variable;
    slice.offset = s.offset;
    slice.desc = {DType::kF32, Shape{s.numel}};
    slice.data = reinterpret_cast<const float*>(s.values.get()) + s.first;
    slice.keep = s.values;
    coded.slices.push_back(std::move(slice));
  }
  *reply = ToByteBuffer(EncodePullReply(coded, crc32c));
  reactor->Finish(grpc::Status::OK);
}

Status PserverService::DoGetStatus(StatusReply* reply) {
  const ShardInfo info = shard_.Info();
  reply->set_job(shard_.Job());
  reply->set_index(static_cast<uint32_t>(options_.index));
  reply->set_server_incarnation(options_.server_incarnation);
  reply->set_configured(info.configured);
  reply->set_initialised(info.initialised);
  if (info.configured) {
    reply->set_mode(info.config.mode == ShardMode::kSync ? UPDATE_MODE_SYNC : UPDATE_MODE_A_SYNC);
  }
  reply->set_version(info.version);
  for (const SliceSpec& s : info.config.slices) {
    SliceStatus* slice = reply->add_slice();
    slice->set_variable(s.variable);
    slice->set_offset(s.offset);
    slice->set_numel(s.numel);
  }
  for (const TrainerInfo& t : info.trainers) {
    TrainerStatus* trainer = reply->add_trainer();
    trainer->set_trainer_id(static_cast<uint32_t>(t.trainer));
    trainer->set_seen(t.seen);
    trainer->set_incarnation(t.incarnation);
    trainer->set_pushes(t.pushes);
    trainer->set_last_step(t.last_step);
    trainer->set_silent_seconds(t.silent_seconds);
    trainer->set_completed(t.completed);
  }
  reply->set_checkpoint_version(options_.checkpoint_version());
  return OkStatus();
}

}  // namespace

std::unique_ptr<grpc::Service> MakePserverService(PserverServiceOptions options, Shard& shard,
                                                  Runner& workers, DeadlineDriver& deadlines) {
  return std::make_unique<PserverService>(std::move(options), shard, workers, deadlines);
}

}  // namespace tandem
