#include "pserver/service.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/audit_log.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/token.h"
#include "common/tensor/row_buckets.h"
#include "proto/pserver.grpc.pb.h"
#include "pserver/access.h"
#include "pserver/cut_calls.h"
#include "pserver/move_calls.h"
#include "pserver/plain_calls.h"
#include "pserver/proto_convert.h"

namespace tandem {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;
using Finish = CallMetrics::Finish;

// A push up to this size is worked on by the thread that received it: handing it to another one
// would take longer than the work. A longer one must not hold up other connections.
constexpr size_t kShortBytesMax = 1 << 20;

using Moves = ParameterServer::WithCallbackMethod_ExchangeMap<
    ParameterServer::WithCallbackMethod_FreezeBuckets<
        ParameterServer::WithCallbackMethod_OfferBuckets<
            ParameterServer::WithCallbackMethod_ReleaseBuckets<
                ParameterServer::WithCallbackMethod_RefuseBuckets<ParameterServer::Service>>>>>;
using Cuts = ParameterServer::WithCallbackMethod_HoldPushes<
    ParameterServer::WithCallbackMethod_TakeCut<Moves>>;
// Push and Pull carry tensors and are read and written by hand, the rest goes through protobuf.
using Plain = ParameterServer::WithCallbackMethod_Configure<
    ParameterServer::WithCallbackMethod_InitParams<ParameterServer::WithCallbackMethod_WaitInit<
        ParameterServer::WithCallbackMethod_Barrier<ParameterServer::WithCallbackMethod_Complete<
            ParameterServer::WithCallbackMethod_GetStatus<
                ParameterServer::WithCallbackMethod_SaveCheckpoint<
                    ParameterServer::WithCallbackMethod_RestoreCheckpoint<
                        ParameterServer::WithCallbackMethod_PullState<
                            ParameterServer::WithCallbackMethod_PullTable<
                                ParameterServer::WithCallbackMethod_OpenLane<Cuts>>>>>>>>>>>;
using Base =
    ParameterServer::WithRawCallbackMethod_Push<ParameterServer::WithRawCallbackMethod_Pull<Plain>>;

// Writes the answer of a call that carries tensors, and ends it.
TensorCalls::Answer Into(ByteBuffer* reply, const Finish& finish) {
  return [reply, finish](const Status& status, EncodedMessage answer) {
    if (status.ok()) *reply = ToByteBuffer(std::move(answer));
    finish(status);
  };
}

// Those of the certificate that the caller showed; empty without one.
std::vector<std::string> UrisOf(const CallbackServerContext& context) {
  std::vector<std::string> uris;
  const auto peer = context.auth_context();
  if (peer == nullptr) return uris;
  for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

class PserverService final : public Base {
 public:
  PserverService(PserverServiceOptions options, DurableShard& durable, TensorCalls& calls,
                 CallMetrics& metrics, PserverThreads threads, Deadlines& deadlines)
      : options_(std::move(options)),
        durable_(durable),
        shard_(durable.shard()),
        calls_(calls),
        metrics_(metrics),
        threads_(threads),
        deadlines_(deadlines) {}

  ServerUnaryReactor* Configure(CallbackServerContext* context, const ConfigureRequest* request,
                                ConfigureReply* reply) override {
    return Move(context, PserverCall::kConfigure,
                [this, request, reply] { return ConfigureShard(*request, shard_, reply); });
  }
  ServerUnaryReactor* InitParams(CallbackServerContext* context, const InitParamsRequest* request,
                                 InitParamsReply* reply) override {
    return Work(context, PserverCall::kInitParams,
                [this, request, reply] { return InitShard(*request, shard_, reply); });
  }
  ServerUnaryReactor* WaitInit(CallbackServerContext* context, const WaitInitRequest* request,
                               WaitInitReply* reply) override;
  ServerUnaryReactor* Push(CallbackServerContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override;
  ServerUnaryReactor* Pull(CallbackServerContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override;
  ServerUnaryReactor* Barrier(CallbackServerContext* context, const BarrierRequest* request,
                              BarrierReply*) override;
  ServerUnaryReactor* Complete(CallbackServerContext* context, const CompleteRequest* request,
                               CompleteReply* reply) override {
    return Hand(context, PserverCall::kComplete, &threads_.others,
                [this, request, reply](const Finish& finish) {
                  const StatusOr<int> left = shard_.Complete(CallerOf(*request));
                  if (!left.ok()) return finish(left.status());
                  reply->set_trainers_left(static_cast<uint32_t>(*left));
                  durable_.WhenLeft(finish);
                });
  }
  ServerUnaryReactor* GetStatus(CallbackServerContext* context, const StatusRequest*,
                                StatusReply* reply) override {
    return Work(context, PserverCall::kGetStatus, [this, reply] { return DoGetStatus(reply); });
  }
  ServerUnaryReactor* SaveCheckpoint(CallbackServerContext* context,
                                     const SaveCheckpointRequest* request,
                                     SaveCheckpointReply* reply) override {
    return Work(context, PserverCall::kSaveCheckpoint, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      if (!SaveMode_IsValid(request->mode())) {
        return InvalidArgument("mode %d is unknown; expected whole or delta", request->mode());
      }
      TD_ASSIGN_OR_RETURN(
          const auto saved,
          durable_.Save(request->mode() == SAVE_DELTA, request->unless_kept(),
                        request->unless_kept() != 0 ? Duration() : WritePace::kAnswer));
      reply->set_version(saved.first);
      reply->set_bytes(saved.second);
      reply->set_kept_number(shard_.kept_number());
      return OkStatus();
    });
  }
  ServerUnaryReactor* RestoreCheckpoint(CallbackServerContext* context,
                                        const RestoreCheckpointRequest* request,
                                        RestoreCheckpointReply* reply) override {
    return Work(context, PserverCall::kRestoreCheckpoint, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      TD_ASSIGN_OR_RETURN(const uint64_t version, durable_.Restore(request->cut()));
      reply->set_version(version);
      return OkStatus();
    });
  }
  ServerUnaryReactor* PullState(CallbackServerContext* context, const PullStateRequest* request,
                                PullStateReply* reply) override {
    return Work(context, PserverCall::kPullState, [this, request, reply]() -> Status {
      TD_ASSIGN_OR_RETURN(const auto state,
                          shard_.PullState(request->job(), {request->variable().begin(),
                                                            request->variable().end()}));
      reply->set_version(state.first);
      for (const SlotValues& slot : state.second) ToProto(slot, reply->add_slot());
      return OkStatus();
    });
  }
  ServerUnaryReactor* PullTable(CallbackServerContext* context, const PullTableRequest* request,
                                PullTableReply* reply) override {
    return Work(context, PserverCall::kPullTable,
                [this, request, reply] { return DoPullTable(*request, reply); });
  }
  ServerUnaryReactor* OpenLane(CallbackServerContext* context, const OpenLaneRequest* request,
                               OpenLaneReply* reply) override {
    return Work(context, PserverCall::kOpenLane, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(shard_.Greet(CallerOf(*request)));
      TD_ASSIGN_OR_RETURN(LaneInvitation invitation, options_.invite());
      reply->set_socket(std::move(invitation.socket));
      reply->set_ticket(std::move(invitation.ticket));
      return OkStatus();
    });
  }
  ServerUnaryReactor* ExchangeMap(CallbackServerContext* context, const ExchangeMapRequest* request,
                                  ExchangeMapReply* reply) override {
    return Move(context, PserverCall::kExchangeMap,
                [this, request, reply] { return tandem::ExchangeMap(*request, shard_, reply); });
  }
  ServerUnaryReactor* FreezeBuckets(CallbackServerContext* context,
                                    const FreezeBucketsRequest* request,
                                    FreezeBucketsReply* reply) override {
    return Move(context, PserverCall::kFreezeBuckets, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      return tandem::FreezeBuckets(*request, shard_, reply);
    });
  }
  ServerUnaryReactor* OfferBuckets(CallbackServerContext* context,
                                   const OfferBucketsRequest* request,
                                   OfferBucketsReply* /*reply*/) override {
    return Move(context, PserverCall::kOfferBuckets, [this, request]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      return tandem::OfferBuckets(*request, shard_);
    });
  }
  ServerUnaryReactor* ReleaseBuckets(CallbackServerContext* context,
                                     const ReleaseBucketsRequest* request,
                                     ReleaseBucketsReply* reply) override {
    return Move(context, PserverCall::kReleaseBuckets,
                [this, request, reply] { return tandem::ReleaseBuckets(*request, shard_, reply); });
  }
  ServerUnaryReactor* RefuseBuckets(CallbackServerContext* context,
                                    const RefuseBucketsRequest* request,
                                    RefuseBucketsReply* /*reply*/) override {
    return Move(context, PserverCall::kRefuseBuckets, [this, request]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      return shard_.RefuseBuckets(request->job(), request->refuse());
    });
  }
  ServerUnaryReactor* HoldPushes(CallbackServerContext* context, const HoldPushesRequest* request,
                                 HoldPushesReply* reply) override {
    // With the map, of which others hear then.
    return Move(context, PserverCall::kHoldPushes,
                [this, request, reply] { return tandem::HoldPushes(*request, durable_, reply); });
  }
  ServerUnaryReactor* TakeCut(CallbackServerContext* context, const TakeCutRequest* request,
                              TakeCutReply* reply) override {
    return Hand(context, PserverCall::kTakeCut, &threads_.others,
                [this, request, reply](const Finish& finish) {
                  tandem::TakeCut(*request, durable_, reply, finish);
                  deadlines_.Poke(shard_.NextDeadline());
                });
  }

 private:
  Status CheckToken(const CallbackServerContext& context) const;
  Status CheckJob(const std::string& job) const;
  Status CheckCaller(const CallbackServerContext& context, PserverCall call) const;
  // `finish`, which then notes in the audit log who made the call and what came of it.
  Finish Noted(const CallbackServerContext& context, PserverCall call, Finish finish) const;
  // Runs `body`, which answers the call by itself, on `runner`; null: at once. Everything goes
  // through here: it is where callers are refused, and calls are counted.
  ServerUnaryReactor* Hand(CallbackServerContext* context, PserverCall call, Runner* runner,
                           std::function<void(const Finish&)> body);
  // Runs `body` on a worker and answers with its status.
  ServerUnaryReactor* Work(CallbackServerContext* context, PserverCall call,
                           std::function<Status()> body) {
    return Hand(
        context, call, &threads_.others, [this, body = std::move(body)](const Finish& finish) {
          const Status status = body();
          shard_.WhenWritten(
              [status, finish](const Status& written) { finish(status.ok() ? written : status); });
        });
  }

  // The same, once what `body` did is kept, and what it tells of moves: a push that is cut anew,
  // and the next step of a move, build on it.
  ServerUnaryReactor* Move(CallbackServerContext* context, PserverCall call,
                           std::function<Status()> body) {
    return Hand(context, call, &threads_.others,
                [this, body = std::move(body)](const Finish& finish) {
                  if (const Status status = body(); !status.ok()) return finish(status);
                  durable_.WhenKept(finish);
                });
  }

  Status DoPullTable(const PullTableRequest& request, PullTableReply* reply);
  Status DoGetStatus(StatusReply* reply);
  // The token of the job that is served.
  std::string Expected() const;

  const PserverServiceOptions options_;
  DurableShard& durable_;
  Shard& shard_;
  TensorCalls& calls_;
  CallMetrics& metrics_;
  const PserverThreads threads_;
  Deadlines& deadlines_;
  mutable Mutex mu_;
  mutable std::pair<std::string, std::string> token_ TD_GUARDED_BY(mu_);  // of job, token
};

Status PserverService::CheckToken(const CallbackServerContext& context) const {
  if (options_.secret.empty()) return OkStatus();
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kTokenMetadata);
  if (it == metadata.end()) {
    return Unauthenticated(
        "this server asks for the job's token (metadata %s); does the caller "
        "have the secret file? [TD6011]; hint: TANDEM_SECRET_FILE=FILE, or --secret_file of tandem",
        kTokenMetadata);
  }
  const std::string_view got(it->second.data(), it->second.size());
  if (TokensEqual(got, Expected())) return OkStatus();
  return Unauthenticated("wrong token for job \"%s\": another secret or another job [TD6011]",
                         shard_.Job());
}

std::string PserverService::Expected() const {
  // The token depends on the job that is served; before the first Configure on the one it says.
  const std::string job = shard_.Job();
  MutexLock lock(mu_);
  if (token_.second.empty() || token_.first != job) {
    token_ = {job, JobToken(options_.secret, job)};
  }
  return token_.second;
}

Status PserverService::CheckJob(const std::string& job) const {
  return tandem::CheckJob(job, shard_.Job());
}

Status PserverService::CheckCaller(const CallbackServerContext& context, PserverCall call) const {
  TD_RETURN_IF_ERROR(CheckToken(context));
  if (!options_.roles) return OkStatus();
  const std::vector<std::string> uris = UrisOf(context);
  const Status status =
      CheckAccess(call, shard_.Job(), std::vector<std::string_view>(uris.begin(), uris.end()));
  if (!status.ok()) {
    LOG_EVERY_T(WARNING, 1.0) << "refused " << context.peer() << ": " << status.message();
  }
  return status;
}

Finish PserverService::Noted(const CallbackServerContext& context, PserverCall call,
                             Finish finish) const {
  AuditRecord record;
  record.job = shard_.Job();
  record.call = AccessTable()[static_cast<size_t>(call)].method;
  record.peer = context.peer();
  record.proof = "nothing";
  if (const std::vector<std::string> uris = UrisOf(context); !uris.empty()) {
    record.caller = absl::StrJoin(uris, " ");
    record.proof = "certificate";
    const StatusOr<PeerIdentity> identity = ParseIdentity(uris[0]);
    if (identity.ok()) record.role = RoleName(identity->role);
  } else if (!options_.secret.empty() && CheckToken(context).ok()) {
    record.proof = "token";
  }
  return [audit = options_.audit, record, finish = std::move(finish)](const Status& status) {
    AuditRecord ended = record;
    ended.outcome = status;
    audit->Add(ended);
    finish(status);
  };
}

ServerUnaryReactor* PserverService::Hand(CallbackServerContext* context, PserverCall call,
                                         Runner* runner, std::function<void(const Finish&)> body) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  Finish finish = [reactor, done = metrics_.Begin(call)](const Status& status) {
    done(status);
    reactor->Finish(ToGrpc(status));  // the last use of the call: it may be gone now
  };
  if (options_.audit != nullptr) finish = Noted(*context, call, std::move(finish));
  if (Status status = CheckCaller(*context, call); !status.ok()) {
    finish(status);
    return reactor;
  }
  if (runner == nullptr) {
    body(finish);
    return reactor;
  }
  const Status posted = runner->Post([context, finish, body = std::move(body)] {
    // Nobody waits for the answer of a call that was given up while it stood in the queue.
    if (context->IsCancelled()) {
      finish(Cancelled("the call ended before its turn came; nothing was done"));
    } else {
      body(finish);
    }
  });
  if (!posted.ok()) finish(posted);
  return reactor;
}

ServerUnaryReactor* PserverService::WaitInit(CallbackServerContext* context,
                                             const WaitInitRequest* request, WaitInitReply* reply) {
  return Hand(context, PserverCall::kWaitInit, &threads_.others, [=, this](const Finish& finish) {
    const Time deadline = deadlines_.After(request->timeout_ms());
    shard_.WaitInit(CallerOf(*request), deadline, [reply, finish](StatusOr<uint64_t> version) {
      if (version.ok()) reply->set_version(*version);
      finish(version.status());
    });
    deadlines_.Poke(deadline);
  });
}

ServerUnaryReactor* PserverService::Barrier(CallbackServerContext* context,
                                            const BarrierRequest* request, BarrierReply*) {
  return Hand(context, PserverCall::kBarrier, &threads_.others, [=, this](const Finish& finish) {
    const Time deadline = deadlines_.After(request->timeout_ms());
    shard_.Barrier(CallerOf(*request), request->name(), request->generation(), deadline, finish);
    deadlines_.Poke(deadline);
  });
}

ServerUnaryReactor* PserverService::Push(CallbackServerContext* context, const ByteBuffer* request,
                                         ByteBuffer* reply) {
  const bool is_short = request->Length() <= kShortBytesMax;
  return Hand(context, PserverCall::kPush, is_short ? nullptr : &threads_.pushes,
              [=, this](const Finish& finish) {
                calls_.Push(ReceivedMessage(*request).fragments(), Into(reply, finish));
              });
}

ServerUnaryReactor* PserverService::Pull(CallbackServerContext* context, const ByteBuffer* request,
                                         ByteBuffer* reply) {
  const bool rows = AsksForRowsAlone(ReceivedMessage(*request).fragments());
  Runner& runner = rows ? threads_.row_pulls : threads_.pulls;
  return Hand(context, PserverCall::kPull, &runner, [=, this](const Finish& finish) {
    calls_.Pull(ReceivedMessage(*request).fragments(), Into(reply, finish));
  });
}

Status PserverService::DoPullTable(const PullTableRequest& request, PullTableReply* reply) {
  constexpr uint64_t kBytes = 16 << 20, kBytesMax = 256 << 20;
  const uint64_t bytes = request.bytes_max() == 0 ? kBytes : request.bytes_max();
  const int bucket = static_cast<int>(std::min<uint32_t>(request.bucket_begin(), kRowBuckets));
  const int end = static_cast<int>(std::min<uint32_t>(request.bucket_end(), kRowBuckets));
  TD_ASSIGN_OR_RETURN(const TablePage page,
                      shard_.PullTable(request.job(), request.variable(), bucket, request.slots(),
                                       std::min(bytes, kBytesMax), end));
  reply->set_version(page.version);
  ToProto(page.rows, reply->mutable_rows());
  for (const std::string& slot : page.slots) reply->add_slot(slot);
  for (const float start : page.slot_start) reply->add_slot_start(start);
  reply->set_next_bucket(static_cast<uint32_t>(page.next_bucket));
  return OkStatus();
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
    trainer->set_lost(t.lost);
    trainer->set_skipped(t.skipped);
    trainer->set_lost_pushes(t.lost_pushes);
    trainer->set_waited_seconds(t.waited_seconds);
    trainer->set_completed(t.completed);
  }
  for (const TableInfo& t : info.tables) {
    TableStatus* table = reply->add_table();
    table->set_variable(t.variable);
    table->set_rows(t.rows);
    table->set_bytes(t.bytes);
    table->set_waiting(t.waiting);
    table->set_dropped(t.dropped);
    table->set_removed(t.removed);
    table->set_extended(t.extended);
  }
  reply->set_checkpoint_version(durable_.checkpoint_version());
  reply->set_buckets(static_cast<uint32_t>(info.buckets));
  reply->set_map_version(info.map_version);
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> cuts, durable_.Cuts());
  reply->mutable_cut()->Add(cuts.begin(), cuts.end());
  return OkStatus();
}

}  // namespace

std::unique_ptr<grpc::Service> MakePserverService(PserverServiceOptions options,
                                                  DurableShard& durable, TensorCalls& calls,
                                                  CallMetrics& metrics, PserverThreads threads,
                                                  Deadlines& deadlines) {
  return std::make_unique<PserverService>(std::move(options), durable, calls, metrics, threads,
                                          deadlines);
}

}  // namespace tandem
