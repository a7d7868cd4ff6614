#include "pserver/service/service.h"

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/rpc/admissions.h"
#include "common/rpc/audit_log.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/credentials/session_proof.h"
#include "common/rpc/credentials/token.h"
#include "common/rpc/grpc_status.h"
#include "common/tables/row_buckets.h"
#include "pserver/replication/log_source.h"
#include "pserver/service/access.h"
#include "pserver/service/caller_uris.h"
#include "pserver/service/held_changes.h"
#include "pserver/service/move_calls.h"
#include "pserver/service/plain_calls.h"
#include "pserver/service/raw_services.h"
#include "pserver/service/reader_limits.h"
#include "pserver/service/replication_calls.h"
#include "pserver/service/server_sessions.h"
#include "pserver/service/service_handlers.h"
#include "pserver/service/snapshot_calls.h"
#include "pserver/service/state_log.h"
#include "pserver/service/waiting_reactor.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "pserver/shard/read_calls.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

using grpc::ByteBuffer;
using grpc::ServerUnaryReactor;
using Finish = CallMetrics::Finish;

// Maximum bytes of a push that is handled on the thread that received it. For a short push, a
// thread switch would take longer than the work. A longer push would block other connections of
// this thread.
constexpr size_t kShortBytesMax = 1 << 20;

// Returns a function that writes the reply of a Push or Pull to `reply` and calls `finish`.
TensorCalls::Answer Into(ByteBuffer* reply, const Finish& finish) {
  return [reply, finish](const Status& status, codec::EncodedMessage answer) {
    if (status.ok()) *reply = rpc::ToByteBuffer(std::move(answer));
    finish(status);
  };
}

// Writes a line of StateLog to the server's log, unless the line is empty.
void Tell(const std::string& line) { LOG_IF(INFO, !line.empty()) << line; }

StateLog::Transfer TransferOf(const ParcelDef& parcel, uint32_t peer) {
  StateLog::Transfer t{static_cast<int>(peer), parcel.move_size(), 0,
                       static_cast<int64_t>(parcel.ByteSizeLong())};
  for (const TableRows& rows : parcel.rows()) t.rows += rows.id_size();
  return t;
}

// Maximum time in which standbys must fetch a restored state.
constexpr Duration kRestoreWait = std::chrono::seconds(300);

class PserverService final : public PserverHandlers {
 public:
  PserverService(PserverServiceOptions options, DurableShard& durable, TensorCalls& calls,
                 CallMetrics& metrics, PserverThreads threads, Deadlines& deadlines)
      : options_(std::move(options)),
        durable_(durable),
        shard_(durable.shard()),
        calls_(calls),
        metrics_(metrics),
        threads_(threads),
        deadlines_(deadlines),
        changes_(options_.history, shard_, deadlines_, threads_.readers) {}

  ServerUnaryReactor* Configure(CallContext* context, const ConfigureRequest* request,
                                ConfigureReply* reply) override {
    return Move(context, PserverCall::kConfigure, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(ConfigureShard(*request, shard_, reply));
      const CallerId caller = CallerOf(*request);
      Tell(log_.Joined(caller.trainer, caller.incarnation, caller.job));
      return OkStatus();
    });
  }
  ServerUnaryReactor* InitParams(CallContext* context, const InitParamsRequest* request,
                                 InitParamsReply* reply) override {
    return Work(context, PserverCall::kInitParams,
                [this, request, reply] { return InitShard(*request, shard_, reply); });
  }
  ServerUnaryReactor* WaitInit(CallContext* context, const WaitInitRequest* request,
                               WaitInitReply* reply) override;
  ServerUnaryReactor* Push(CallContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override;
  ServerUnaryReactor* Pull(CallContext* context, const ByteBuffer* request,
                           ByteBuffer* reply) override;
  ServerUnaryReactor* Barrier(CallContext* context, const BarrierRequest* request,
                              BarrierReply*) override;
  ServerUnaryReactor* Complete(CallContext* context, const CompleteRequest* request,
                               CompleteReply* reply) override {
    return Hand(context, PserverCall::kComplete, &threads_.others,
                [this, request, reply](const Finish& finish) {
                  const StatusOr<int> left =
                      shard_.Complete(CallerOf(*request), NumbersOf(*request));
                  if (!left.ok()) return finish(left.status());
                  reply->set_trainers_left(static_cast<uint32_t>(*left));
                  Tell(log_.Left(CallerOf(*request).trainer, *left));
                  durable_.WhenSafeToLeave(finish);
                });
  }
  ServerUnaryReactor* GetStatus(CallContext* context, const StatusRequest*,
                                StatusReply* reply) override {
    // The reply does not wait for the log, so that a server whose standbys do not reply has a
    // status.
    return Hand(context, PserverCall::kGetStatus, &threads_.others,
                [this, reply](const Finish& finish) { finish(DoGetStatus(reply)); });
  }
  ServerUnaryReactor* SaveCheckpoint(CallContext* context, const SaveCheckpointRequest* request,
                                     SaveCheckpointReply* reply) override {
    return Work(context, PserverCall::kSaveCheckpoint, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      if (!SaveMode_IsValid(request->mode())) {
        return InvalidArgument("checkpoint mode %d is unknown, expected whole or delta",
                               request->mode());
      }
      TD_ASSIGN_OR_RETURN(
          const SavedCheckpoint saved,
          durable_.Save(request->mode() == SAVE_DELTA, request->unless_kept(),
                        request->unless_kept() != 0 ? Duration() : CheckpointThrottle::kAnswer));
      reply->set_version(saved.version);
      reply->set_bytes(saved.bytes);
      reply->set_kept_number(shard_.checkpoints().stored_number());
      return OkStatus();
    });
  }
  ServerUnaryReactor* RestoreCheckpoint(CallContext* context,
                                        const RestoreCheckpointRequest* request,
                                        RestoreCheckpointReply* reply) override {
    const auto restore = [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(CheckJob(request->job()));
      const Time begin = SteadyNow();
      TD_ASSIGN_OR_RETURN(const uint64_t version, durable_.Restore(request->cut()));
      reply->set_version(version);
      Tell(absl::StrFormat("version %d was restored in %.3f s", version,
                           Seconds(SteadyNow() - begin)));
      // Without this wait, a promotion could return to the state before the restore.
      return options_.source == nullptr ? OkStatus()
                                        : options_.source->AwaitStandbys(begin + kRestoreWait);
    };
    return Work(context, PserverCall::kRestoreCheckpoint, restore, &restores_);
  }
  ServerUnaryReactor* PullState(CallContext* context, const PullStateRequest* request,
                                PullStateReply* reply) override {
    return Work(context, PserverCall::kPullState, [this, request, reply]() -> Status {
      TD_ASSIGN_OR_RETURN(const VersionedSlots state,
                          shard_.reads().PullState(request->job(), {request->variable().begin(),
                                                                    request->variable().end()}));
      reply->set_version(state.version);
      for (const SlotValues& slot : state.slots) ToProto(slot, reply->add_slot());
      return OkStatus();
    });
  }
  ServerUnaryReactor* PullTable(CallContext* context, const PullTableRequest* request,
                                PullTableReply* reply) override {
    return Work(context, PserverCall::kPullTable,
                [this, request, reply, reader = IsReader(*context)]() -> Status {
                  if (reader) TD_RETURN_IF_ERROR(CheckReaderPage(*request));
                  return DoPullTable(*request, reply);
                });
  }
  ServerUnaryReactor* OpenLane(CallContext* context, const OpenLaneRequest* request,
                               OpenLaneReply* reply) override {
    return Work(context, PserverCall::kOpenShmChannel, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(shard_.Greet(CallerOf(*request)));
      TD_ASSIGN_OR_RETURN(shm_rpc::ShmRpcTicket invitation, options_.invite());
      reply->set_socket(std::move(invitation.socket));
      reply->set_ticket(std::move(invitation.ticket));
      return OkStatus();
    });
  }
  ServerUnaryReactor* ExchangeMap(CallContext* context, const ExchangeMapRequest* request,
                                  ExchangeMapReply* reply) override {
    const bool reader = IsReader(*context);
    if (options_.replica || reader) {
      return Work(context, PserverCall::kExchangeMap, [this, request, reader, reply] {
        return ShowMap(*request, reader, shard_, reply);
      });
    }
    return Move(context, PserverCall::kExchangeMap, [this, request, reply] {
      return tandem::pserver::ExchangeMap(*request, shard_, reply);
    });
  }
  ServerUnaryReactor* FreezeBuckets(CallContext* context, const FreezeBucketsRequest* request,
                                    FreezeBucketsReply* reply) override {
    return Move(context, PserverCall::kFreezeBuckets, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      TD_RETURN_IF_ERROR(tandem::pserver::FreezeBuckets(*request, shard_, reply));
      Tell(request->over()
               ? log_.TransferEnded(static_cast<int>(request->target()), /*committed=*/false)
               : log_.TransferBegan(TransferOf(reply->parcel(), request->target())));
      return OkStatus();
    });
  }
  ServerUnaryReactor* OfferBuckets(CallContext* context, const OfferBucketsRequest* request,
                                   OfferBucketsReply* /*reply*/) override {
    return Move(context, PserverCall::kOfferBuckets, [this, request]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      TD_RETURN_IF_ERROR(tandem::pserver::OfferBuckets(*request, shard_));
      Tell(StateLog::Received(TransferOf(request->parcel(), request->parcel().source())));
      return OkStatus();
    });
  }
  ServerUnaryReactor* ReleaseBuckets(CallContext* context, const ReleaseBucketsRequest* request,
                                     ReleaseBucketsReply* reply) override {
    return Move(context, PserverCall::kReleaseBuckets, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(tandem::pserver::ReleaseBuckets(*request, shard_, reply));
      Tell(log_.TransferEnded(static_cast<int>(request->move(0).server()), /*committed=*/true));
      return OkStatus();
    });
  }
  ServerUnaryReactor* RefuseBuckets(CallContext* context, const RefuseBucketsRequest* request,
                                    RefuseBucketsReply* /*reply*/) override {
    return Move(context, PserverCall::kRefuseBuckets, [this, request]() -> Status {
      TD_RETURN_IF_ERROR(durable_.CheckMoves());
      TD_RETURN_IF_ERROR(shard_.migrations().Refuse(request->job(), request->refuse()));
      Tell(request->refuse() ? "a drain begins: this server accepts no more rows"
                             : "this server accepts rows again");
      return OkStatus();
    });
  }
  ServerUnaryReactor* HoldPushes(CallContext* context, const HoldPushesRequest* request,
                                 HoldPushesReply* reply) override {
    // The reply contains the bucket map, from which other servers learn. Move therefore replies
    // only when the changes are durable.
    return Move(context, PserverCall::kHoldPushes, [this, request, reply]() -> Status {
      TD_RETURN_IF_ERROR(tandem::pserver::HoldPushes(*request, durable_, reply));
      if (!request->over()) Tell(log_.SnapshotBegan(request->cut()));
      return OkStatus();
    });
  }
  ServerUnaryReactor* TakeCut(CallContext* context, const TakeCutRequest* request,
                              TakeCutReply* reply) override {
    return Hand(context, PserverCall::kTakeSnapshot, &threads_.others,
                [this, request, reply](const Finish& finish) {
                  const auto done = [this, request, reply, finish](const Status& status) {
                    const int64_t bytes = status.ok() ? static_cast<int64_t>(reply->bytes()) : -1;
                    Tell(log_.SnapshotEnded(request->cut(), bytes));
                    finish(status);
                  };
                  tandem::pserver::TakeSnapshot(*request, durable_, reply, done);
                  deadlines_.Poke(shard_.NextDeadline());
                });
  }
  ServerUnaryReactor* FetchLog(CallContext* context, const FetchLogRequest* request,
                               FetchLogReply* reply) override {
    Runner* const runner = request->replica() ? &threads_.replicas : &threads_.standbys;
    return Hand(
        context, PserverCall::kFetchLog, runner,
        [this, request, reply, arrived = SteadyNow()](const Finish& finish) {
          const Status status = CheckJob(request->job());
          finish(status.ok() ? FetchLogEntries(*request, arrived, options_.source, reply) : status);
        });
  }
  ServerUnaryReactor* FetchCheckpoint(CallContext* context, const FetchCheckpointRequest* request,
                                      FetchCheckpointReply* reply) override {
    Runner* const runner = request->replica() ? &threads_.replicas : &threads_.standbys;
    return Hand(
        context, PserverCall::kFetchCheckpoint, runner,
        [this, request, reply](const Finish& finish) {
          const Status status = CheckJob(request->job());
          finish(status.ok() ? FetchCheckpointPart(*request, options_.source, reply) : status);
        });
  }
  ServerUnaryReactor* FetchChanges(CallContext* context, const FetchChangesRequest* request,
                                   FetchChangesReply* reply) override {
    const std::shared_ptr<HeldChanges::Call> held = changes_.Make(*request, reply);
    ServerUnaryReactor* const reactor = NewWaitingReactor([this, held] { changes_.Leave(held); });
    return HandTo(reactor, context, PserverCall::kFetchChanges, &threads_.readers,
                  [this, held](const Finish& finish) { changes_.Answer(held, finish); });
  }
  ServerUnaryReactor* OpenSession(CallContext* context, const OpenSessionRequest* request,
                                  OpenSessionReply* reply) override {
    return Hand(context, PserverCall::kOpenSession, nullptr,
                [this, request, reply](const Finish& finish) {
                  finish(options_.sessions->Open(*request, reply));
                });
  }

 private:
  // Checks the caller's proof of the job's secret. Called once per call, because a proof is valid
  // only once.
  Status CheckSecret(const CallContext& context, PserverCall call) const;
  Status CheckJob(const std::string& job) const;
  Status CheckRole(const CallContext& context, PserverCall call) const;
  // Returns whether the role of the caller is reader, so that the caller may only read.
  bool IsReader(const CallContext& context) const;
  static Status CheckReads(PserverCall call);
  // Tells Admissions that the caller of this connection proved that it has the secret.
  void NoteProof(const CallContext& context, PserverCall call, rpc::Standing standing) const;
  // Returns a function that records the caller and the result of the call in the audit log and
  // calls `finish`.
  Finish Noted(const CallContext& context, PserverCall call, bool has_secret, Finish finish) const;
  // Checks the caller, counts the call, and runs `body` on `runner`, or on this thread if `runner`
  // is null. `body` calls its argument to send the reply. All calls use Hand or a function that
  // calls HandTo.
  ServerUnaryReactor* Hand(CallContext* context, PserverCall call, Runner* runner,
                           std::function<void(const Finish&)> body) {
    return HandTo(context->grpc().DefaultReactor(), context, call, runner, std::move(body));
  }
  ServerUnaryReactor* HandTo(ServerUnaryReactor* reactor, CallContext* context, PserverCall call,
                             Runner* runner, std::function<void(const Finish&)> body);
  // Like Hand, for calls that may wait in the shard. `body` receives the tag of the waiting call.
  // If the caller disconnects, the wait ends.
  ServerUnaryReactor* HandWaiting(CallContext* context, PserverCall call, Runner* runner,
                                  std::function<void(const Finish&, const void* tag)> body);
  // Runs `body` on a thread of `runner` (null: threads_.others). Replies with the status of `body`
  // when its changes are logged.
  ServerUnaryReactor* Work(CallContext* context, PserverCall call, std::function<Status()> body,
                           Runner* runner = nullptr) {
    return Hand(context, call, runner == nullptr ? &threads_.others : runner,
                [this, body = std::move(body)](const Finish& finish) {
                  const Status status = body();
                  shard_.WhenLogged([status, finish](const Status& written) {
                    finish(status.ok() ? written : status);
                  });
                });
  }

  // Like Work, but replies when the changes of `body` are durable. After the reply, clients that
  // partition pushes again rely on these changes, and so does the next phase of a migration.
  ServerUnaryReactor* Move(CallContext* context, PserverCall call, std::function<Status()> body) {
    return Hand(context, call, &threads_.others,
                [this, body = std::move(body)](const Finish& finish) {
                  if (const Status status = body(); !status.ok()) return finish(status);
                  durable_.WhenDurable(finish);
                });
  }

  Status DoPullTable(const PullTableRequest& request, PullTableReply* reply);
  Status DoGetStatus(StatusReply* reply);

  const PserverServiceOptions options_;
  DurableShard& durable_;
  Shard& shard_;
  TensorCalls& calls_;
  CallMetrics& metrics_;
  const PserverThreads threads_;
  Deadlines& deadlines_;
  const RealClock clock_;
  StateLog log_{clock_};
  // For restores, which wait for standbys up to kRestoreWait. They must not occupy threads_.others.
  ThreadPool restores_{"restores", 1, 16};
  HeldChanges changes_;
};

Status PserverService::CheckSecret(const CallContext& context, PserverCall call) const {
  if (!options_.sessions->asks() || call == PserverCall::kOpenSession) return OkStatus();
  const auto& metadata = context.grpc().client_metadata();
  if (const auto stamp = metadata.find(rpc::kStampMetadata); stamp != metadata.end()) {
    return options_.sessions->Check({stamp->second.data(), stamp->second.size()}, rpc::NameOf(call),
                                    rpc::NameInV1(call));
  }
  if (metadata.find(rpc::kTokenMetadata) != metadata.end()) {
    return Unauthenticated(
        "the caller proves its identity with a token (metadata %s), as earlier versions of Tandem "
        "do, but this server requires a session [TD6022]; hint: run the same version of Tandem on "
        "both sides",
        rpc::kTokenMetadata);
  }
  return Unauthenticated(
      "the call has no proof of the job's secret [TD6011]; hint: set TANDEM_SECRET_FILE=FILE, or "
      "--secret_file of tandem");
}

Status PserverService::CheckJob(const std::string& job) const {
  return tandem::pserver::CheckJob(job, shard_.Job());
}

// A replica has the state of its primary, and only the primary may change it.
Status PserverService::CheckReads(PserverCall call) {
  switch (call) {
    case PserverCall::kPull:
    case PserverCall::kPullTable:
    case PserverCall::kPullState:
    case PserverCall::kExchangeMap:  // only without moves (ExchangeMap)
    case PserverCall::kFetchChanges:
    case PserverCall::kGetStatus:
    case PserverCall::kOpenSession:
      return OkStatus();
    default:
      return FailedPrecondition(
          "this server is a replica, which does not answer %s [TD4033]; hint: call its primary",
          rpc::NameOf(call));
  }
}

Status PserverService::CheckRole(const CallContext& context, PserverCall call) const {
  if (!options_.roles) {
    NoteProof(context, call, rpc::Standing::kTrusted);
    return OkStatus();
  }
  const std::vector<std::string> uris = UrisOf(context.grpc());
  Status status =
      CheckAccess(call, shard_.Job(), std::vector<std::string_view>(uris.begin(), uris.end()));
  if (!status.ok()) {
    LOG_EVERY_T(WARNING, 1.0) << "refused " << context.grpc().peer() << ": " << status.message();
  } else {
    const StatusOr<rpc::PeerIdentity> caller = rpc::ParseIdentity(uris[0]);
    using enum rpc::PeerRole;
    const rpc::PeerRole role = caller.ok() ? caller->role : kObserver;
    NoteProof(context, call,
              role == kObserver ? rpc::Standing::kObserver
              : role == kReader ? rpc::Standing::kReader
                                : rpc::Standing::kTrusted);
  }
  return status;
}

bool PserverService::IsReader(const CallContext& context) const {
  if (!options_.roles) return false;
  const std::vector<std::string> uris = UrisOf(context.grpc());
  if (uris.size() != 1) return false;  // CheckRole rejects the call
  const StatusOr<rpc::PeerIdentity> caller = rpc::ParseIdentity(uris[0]);
  return caller.ok() && caller->role == rpc::PeerRole::kReader;
}

void PserverService::NoteProof(const CallContext& context, PserverCall call,
                               rpc::Standing standing) const {
  // At OpenSession, the caller has not proved yet that it has the secret.
  const bool proved = call != PserverCall::kOpenSession || !options_.sessions->asks();
  if (proved && options_.admissions != nullptr)
    options_.admissions->Prove(context.grpc().peer(), standing);
}

Finish PserverService::Noted(const CallContext& context, PserverCall call, bool has_secret,
                             Finish finish) const {
  rpc::AuditRecord record;
  record.job = shard_.Job();
  record.call = rpc::NameOf(call);
  record.peer = context.grpc().peer();
  record.proof = "nothing";
  if (const std::vector<std::string> uris = UrisOf(context.grpc()); !uris.empty()) {
    record.caller = absl::StrJoin(uris, " ");
    record.proof = "certificate";
    const StatusOr<rpc::PeerIdentity> identity = rpc::ParseIdentity(uris[0]);
    if (identity.ok()) record.role = rpc::RoleName(identity->role);
  } else if (has_secret) {
    record.proof = "secret";
  }
  return [audit = options_.audit, record, finish = std::move(finish)](const Status& status) {
    rpc::AuditRecord ended = record;
    ended.outcome = status;
    audit->Add(ended);
    finish(status);
  };
}

ServerUnaryReactor* PserverService::HandWaiting(
    CallContext* context, PserverCall call, Runner* runner,
    std::function<void(const Finish&, const void* tag)> body) {
  // `gone` becomes true when the caller disconnects. Its address is the tag of the call.
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  ServerUnaryReactor* const reactor = NewWaitingReactor([this, gone] {
    *gone = true;
    shard_.Leave(gone.get());
  });
  return HandTo(reactor, context, call, runner,
                [this, gone, body = std::move(body)](const Finish& finish) {
                  body(finish, gone.get());
                  // The caller may have disconnected before the call began to wait in the shard.
                  if (*gone) shard_.Leave(gone.get());
                });
}

ServerUnaryReactor* PserverService::HandTo(ServerUnaryReactor* reactor, CallContext* context,
                                           PserverCall call, Runner* runner,
                                           std::function<void(const Finish&)> body) {
  const std::shared_ptr<CallContext> held = context->shared_from_this();
  Finish finish = [reactor, held, done = metrics_.Begin(call)](const Status& status) {
    done(status);
    const grpc::Status sent = held->Complete(status);
    // The last access to gRPC's call, which may be destroyed from here on.
    reactor->Finish(sent);
  };
  Status status = CheckSecret(*context, call);
  if (options_.audit != nullptr) {
    const bool has_secret =
        status.ok() && options_.sessions->asks() && call != PserverCall::kOpenSession;
    finish = Noted(*context, call, has_secret, std::move(finish));
  }
  if (status.ok()) status = CheckRole(*context, call);
  if (status.ok() && options_.replica) status = CheckReads(call);
  if (!status.ok()) {
    finish(status);
    return reactor;
  }
  const auto run = [held, finish, body = std::move(body)] {
    const Status status = held->CheckRequest();
    status.ok() ? body(finish) : finish(status);
  };
  if (runner == nullptr) {
    run();
    return reactor;
  }
  // Readers use other threads than trainers. A replica has no trainers.
  if (!options_.replica && IsReader(*context)) runner = &threads_.readers;
  const Status posted = runner->Post([held, finish, run] {
    // No caller waits for the reply of a call that was cancelled in the queue.
    if (held->grpc().IsCancelled()) {
      finish(Cancelled("the call was cancelled before it started; nothing was changed"));
    } else {
      run();
    }
  });
  if (!posted.ok()) finish(posted);
  return reactor;
}

ServerUnaryReactor* PserverService::WaitInit(CallContext* context, const WaitInitRequest* request,
                                             WaitInitReply* reply) {
  return HandWaiting(context, PserverCall::kWaitInit, &threads_.others,
                     [=, this](const Finish& finish, const void* tag) {
                       if (Status s = CheckTimeout(request->timeout_ms()); !s.ok())
                         return finish(s);
                       const Time deadline = deadlines_.After(request->timeout_ms());
                       const auto done = [reply, finish](StatusOr<uint64_t> version) {
                         if (version.ok()) reply->set_version(*version);
                         finish(version.status());
                       };
                       shard_.WaitInit(CallerOf(*request), deadline, done, tag);
                       deadlines_.Poke(deadline);
                     });
}

ServerUnaryReactor* PserverService::Barrier(CallContext* context, const BarrierRequest* request,
                                            BarrierReply*) {
  return HandWaiting(context, PserverCall::kBarrier, &threads_.others,
                     [=, this](const Finish& finish, const void* tag) {
                       if (Status s = CheckTimeout(request->timeout_ms()); !s.ok())
                         return finish(s);
                       const Time deadline = deadlines_.After(request->timeout_ms());
                       shard_.Barrier(CallerOf(*request), request->name(), request->generation(),
                                      deadline, finish, tag);
                       deadlines_.Poke(deadline);
                     });
}

ServerUnaryReactor* PserverService::Push(CallContext* context, const ByteBuffer* request,
                                         ByteBuffer* reply) {
  const bool is_short = request->Length() <= kShortBytesMax;
  return HandWaiting(context, PserverCall::kPush, is_short ? nullptr : &threads_.pushes,
                     [=, this](const Finish& finish, const void* tag) {
                       calls_.Push(rpc::ReceivedMessage(*request).fragments(), Into(reply, finish),
                                   tag);
                     });
}

ServerUnaryReactor* PserverService::Pull(CallContext* context, const ByteBuffer* request,
                                         ByteBuffer* reply) {
  const bool rows = AsksForRowsAlone(rpc::ReceivedMessage(*request).fragments());
  Runner& runner = rows ? threads_.row_pulls : threads_.pulls;
  const bool reader = IsReader(*context);
  return HandWaiting(
      context, PserverCall::kPull, &runner, [=, this](const Finish& finish, const void* tag) {
        if (const Status fits = reader ? CheckReaderBytes(request->Length()) : OkStatus();
            !fits.ok()) {
          return finish(fits);
        }
        calls_.Pull(rpc::ReceivedMessage(*request).fragments(), Into(reply, finish), tag, reader);
      });
}

Status PserverService::DoPullTable(const PullTableRequest& request, PullTableReply* reply) {
  constexpr uint64_t kBytes = 16 << 20, kBytesMax = 256 << 20;
  const uint64_t bytes = request.bytes_max() == 0 ? kBytes : request.bytes_max();
  const int bucket = static_cast<int>(std::min<uint32_t>(request.bucket_begin(), kRowBuckets));
  const int end = static_cast<int>(std::min<uint32_t>(request.bucket_end(), kRowBuckets));
  TD_ASSIGN_OR_RETURN(const TablePage page,
                      shard_.reads().PullTable(request.job(), request.variable(), bucket,
                                               request.slots(), std::min(bytes, kBytesMax), end));
  reply->set_version(page.version);
  ToProto(page.rows, reply->mutable_rows());
  for (const std::string& slot : page.slots) reply->add_slot(slot);
  for (const float start : page.slot_start) reply->add_slot_start(start);
  reply->set_next_bucket(static_cast<uint32_t>(page.next_bucket));
  return OkStatus();
}

Status PserverService::DoGetStatus(StatusReply* reply) {
  reply->set_job(shard_.Job());
  reply->set_index(static_cast<uint32_t>(options_.index));
  reply->set_server_incarnation(options_.server_incarnation);
  FillStatus(shard_.Info(), reply);
  reply->set_checkpoint_version(durable_.checkpoint_version());
  if (options_.replica) {
    FillReplica(options_.replica(), reply);
  } else if (options_.source != nullptr) {
    FillReplication(*options_.source, options_.member, reply);
  }
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, durable_.GlobalSnapshots());
  for (const StoredGlobalSnapshot& snapshot : stored) {
    reply->add_cut(snapshot.number);
    reply->add_cut_version(snapshot.version);
    reply->add_cut_time_us(snapshot.time_us);
    reply->add_cut_bytes(snapshot.bytes);
    reply->add_cut_abandoned(snapshot.abandoned);
  }
  return OkStatus();
}

}  // namespace

PserverServices MakePserverServices(PserverServiceOptions options, DurableShard& durable,
                                    TensorCalls& calls, CallMetrics& metrics,
                                    PserverThreads threads, Deadlines& deadlines) {
  auto handlers = std::make_unique<PserverService>(std::move(options), durable, calls, metrics,
                                                   threads, deadlines);
  PserverServices services;
  services.v1 = MakeServiceV1(*handlers);
  services.unversioned = MakeUnversionedService(*handlers);
  services.handlers = std::move(handlers);
  return services;
}

}  // namespace tandem::pserver
