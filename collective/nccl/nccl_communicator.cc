#include "collective/nccl/nccl_communicator.h"

#include <atomic>
#include <span>
#include <thread>

#include "collective/host/work_impl.h"
#include "collective/status_copy.h"
#include "common/threads/bounded_queue.h"
#include "common/threads/runner.h"

namespace tandem::collective {
namespace {

using Piece = Collective::Piece;

// A wait for an operation spins for kSpin, then polls with pauses of kNap.
constexpr Duration kSpin = std::chrono::microseconds(50), kNap = std::chrono::microseconds(50);
// Maximum time for the orderly close of an NCCL communicator, and for the stream to become idle
// after an abort.
constexpr Duration kCloseTimeout = std::chrono::seconds(10);

// The NCCL ids that a rank creates for communicators: `all` connects all ranks, `inner` connects
// the ranks of a group, and `outer` connects representatives of the groups.
struct Ids {
  NcclUniqueId all, inner, outer;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const NcclLibrary& nccl, Device& device, Communicator& control,
                   const NcclOptions& options)
      : nccl_(nccl),
        device_(device),
        control_(control),
        options_(options),
        name_(absl::StrFormat("nccl communicator %d", options.number)),
        queue_(options.queue_max) {}
  ~NcclCommunicator() override;
  Status Open();

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  const std::string& name() const override { return name_; }
  std::shared_ptr<Work> Start(Collective call) override;
  StatusOr<Buffer> Allocate(size_t bytes) override { return device_.Allocate(bytes); }
  void Abort(const std::string& reason) override TD_EXCLUDES(mu_);
  Status Health() const override TD_EXCLUDES(mu_);

 private:
  struct Item {
    std::shared_ptr<WorkImpl> work;
    SideStream::Mark begin_after;
  };

  bool Hierarchical() const { return options_.group > 1 && size() > options_.group; }
  bool SpeaksForGroup() const {
    return options_.form == HierarchyForm::kShards || rank() % options_.group == 0;
  }
  StatusOr<std::vector<Ids>> ExchangeIds(Time deadline);
  Status JoinAll(Time deadline);
  Status Join(const NcclUniqueId& id, int rank, int size, Time deadline, NcclComm* comm);

  // Only the communication thread uses the following members.
  void Loop();
  Status Execute(const Item& item);
  Status Run(const Item& item, Time deadline);
  Status PutOn(const Collective& call, Time deadline);
  Status PutHierarchical(const Collective& call, std::span<const Piece> pieces, Time deadline);
  NcclResult PutAllToAll(const Piece& piece, const Collective& call);
  NcclResult PutSendRecv(const Piece& piece, const Collective& call);
  template <typename Fn>
  Status Stage(NcclComm comm, std::span<const Piece> pieces, Time deadline, Fn call);
  template <typename Done>
  Status Await(Time deadline, Done done);
  Status Settle(NcclResult result, const char* what, NcclComm comm, Time deadline);
  StatusOr<bool> Settled(NcclComm comm, const char* what) const;
  Status AsyncErrors() const;
  Status Error(NcclResult result, const char* what, NcclComm comm) const {
    return NcclError(nccl_, result, what, comm);
  }
  void Fail(const Status& status) TD_EXCLUDES(mu_);
  void AbortComms();
  void Close();
  bool Finalized(NcclComm comm);

  const NcclLibrary& nccl_;
  Device& device_;
  Communicator& control_;
  const NcclOptions options_;
  const std::string name_;
  std::unique_ptr<SideStream> side_;
  Buffer word_;  // the value that a barrier reduces

  NcclComm all_ = nullptr, inner_ = nullptr, outer_ = nullptr;
  std::vector<NcclComm> comms_;  // the existing ones among all_, inner_ and outer_

  BoundedQueue<Item> queue_;
  std::atomic<int> pending_{0};
  Mutex order_mu_;  // keeps the queue in the order of the operations' numbers
  uint64_t sequence_ TD_GUARDED_BY(order_mu_) = 0;

  mutable Mutex mu_;
  CondVar failed_;
  Status failure_ TD_GUARDED_BY(mu_);  // the first failure of the communicator; OK: none

  std::thread thread_;  // declared last, because the thread uses all members above
};

NcclCommunicator::~NcclCommunicator() {
  const int pending = pending_.load();
  if (pending > 0) {
    Abort(absl::StrFormat("the communicator was closed with %d pending operations", pending));
  }
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

Status NcclCommunicator::Open() {
  if (const Status status = JoinAll(SteadyNow() + options_.start_timeout); !status.ok()) {
    Fail(status);
    AbortComms();
    return Annotate(status, absl::StrFormat("%s, rank %d of %d", name_, rank(), size()));
  }
  thread_ = std::thread([this] { Loop(); });
  return OkStatus();
}

StatusOr<std::vector<Ids>> NcclCommunicator::ExchangeIds(Time deadline) {
  Ids own{};
  const auto make = [this](NcclUniqueId* id) {
    const NcclResult result = nccl_.GetUniqueId(id);
    return result == NcclResult::kSuccess ? OkStatus() : Error(result, "ncclGetUniqueId", nullptr);
  };
  const int group = options_.group;
  if (rank() == 0) TD_RETURN_IF_ERROR(make(&own.all));
  if (Hierarchical() && rank() % group == 0) TD_RETURN_IF_ERROR(make(&own.inner));
  if (Hierarchical() && rank() < group && SpeaksForGroup()) TD_RETURN_IF_ERROR(make(&own.outer));
  std::vector<Ids> ids(static_cast<size_t>(size()));
  // Waits without a deadline, because the operation uses local variables of this function until the
  // operation ends. The operation itself has a deadline.
  TD_RETURN_IF_ERROR(control_
                         .AllGather(&own, ids.data(), sizeof(Ids), DType::kU8,
                                    {.what = "NCCL's unique ids", .deadline = deadline})
                         ->Wait(Time::max()));
  return ids;
}

Status NcclCommunicator::JoinAll(Time deadline) {
  TD_ASSIGN_OR_RETURN(side_, device_.MakeSideStream());
  TD_ASSIGN_OR_RETURN(word_, device_.Allocate(sizeof(int32_t)));
  TD_RETURN_IF_ERROR(side_->Enter());
  TD_ASSIGN_OR_RETURN(const std::vector<Ids> ids, ExchangeIds(deadline));
  TD_RETURN_IF_ERROR(Join(ids[0].all, rank(), size(), deadline, &all_));
  if (!Hierarchical()) return OkStatus();
  const int group = options_.group, place = rank() % group;
  const Ids& first = ids[static_cast<size_t>(rank() - place)];
  TD_RETURN_IF_ERROR(Join(first.inner, place, group, deadline, &inner_));
  if (!SpeaksForGroup()) return OkStatus();
  const Ids& speakers = ids[static_cast<size_t>(place)];
  return Join(speakers.outer, rank() / group, size() / group, deadline, &outer_);
}

Status NcclCommunicator::Join(const NcclUniqueId& id, int rank, int size, Time deadline,
                              NcclComm* comm) {
  NcclConfig config;
  const NcclResult result = nccl_.CommInitRankConfig(comm, size, id, rank, &config);
  if (*comm != nullptr) comms_.push_back(*comm);
  return Settle(result, "ncclCommInitRank", *comm, deadline);
}

// Checks that NCCL can run the call. NCCL supports no groups of ranks in one call, and neither
// kAllToAll nor kSendRecv in place.
Status CheckApart(const Collective& call) {
  if (call.group > 0) {
    return Unimplemented("%s: groups of ranks are not implemented on devices", ToString(call));
  }
  const bool messages = call.op == CollectiveOp::kAllToAll || call.op == CollectiveOp::kSendRecv;
  bool in_place = call.count > 0 && call.in == call.out;
  for (const Piece& piece : call.more) in_place |= piece.count > 0 && piece.in == piece.out;
  if (!messages || !in_place) return OkStatus();
  return InvalidArgument(
      "%s: NCCL does not support this operation in place; hint: use a separate output buffer",
      ToString(call));
}

std::shared_ptr<Work> NcclCommunicator::Start(Collective call) {
  Status bad = CheckCall(call, rank(), size());
  if (bad.ok()) bad = CheckApart(call);
  auto work = std::make_shared<WorkImpl>(std::move(call));
  SideStream::Mark begin_after;
  if (bad.ok()) {
    auto mark = side_->RecordComputeEvent();
    bad = mark.status();
    if (bad.ok()) begin_after = *std::move(mark);
  }
  if (!bad.ok()) {
    work->Finish(bad);
    return work;
  }
  PushResult pushed;
  {
    MutexLock lock(order_mu_);
    work->sequence = sequence_ + 1;
    pending_.fetch_add(1);
    pushed = queue_.TryPush({work, std::move(begin_after)});
    if (pushed == PushResult::kOk) ++sequence_;
  }
  if (pushed != PushResult::kOk) {
    pending_.fetch_sub(1);
    work->Refuse(pushed, options_.queue_max);
  }
  return work;
}

void NcclCommunicator::Abort(const std::string& reason) { Fail(Aborted("%s", reason)); }

// Ends the communicator with the failure `status`. A thread that waits for the device finds the
// failure in failure_ at its next check.
void NcclCommunicator::Fail(const Status& status) {
  {
    MutexLock lock(mu_);
    if (failure_.ok()) failure_ = OwnCopy(status);
    failed_.NotifyAll();
  }
  control_.Abort(std::string(status.message()));
}

Status NcclCommunicator::Health() const {
  {
    MutexLock lock(mu_);
    if (!failure_.ok()) return OwnCopy(failure_);
  }
  return control_.Health();
}

void NcclCommunicator::Loop() {
  SetThreadName("comm-nccl");
  while (auto item = queue_.Pop(Time::max())) {
    const Status status = Execute(*item);
    pending_.fetch_sub(1);
    item->work->Finish(status);
  }
  Close();
}

Status NcclCommunicator::Execute(const Item& item) {
  const Collective& call = item.work->call();
  Status status = Health();
  if (status.ok()) {
    status = Run(item, call.deadline == Time::max() ? SteadyNow() + options_.operation_timeout
                                                    : call.deadline);
  }
  if (status.ok()) return status;
  status = Annotate(status, absl::StrFormat("%s, rank %d of %d, %s, operation %d", name_, rank(),
                                            size(), ToString(call), item.work->sequence));
  Fail(status);
  AbortComms();
  return status;
}

Status NcclCommunicator::Run(const Item& item, Time deadline) {
  TD_RETURN_IF_ERROR(side_->Enter());
  TD_RETURN_IF_ERROR(side_->WaitOn(item.begin_after));
  TD_RETURN_IF_ERROR(PutOn(item.work->call(), deadline));
  return Await(deadline, [this] { return side_->Idle(); });
}

// Runs one operation of `comm` on all `pieces` in one group call, so that NCCL launches fewer
// kernels.
template <typename Fn>
Status NcclCommunicator::Stage(NcclComm comm, std::span<const Piece> pieces, Time deadline,
                               Fn call) {
  if (comm == nullptr) return OkStatus();  // only other ranks take part in this operation
  NcclResult first = nccl_.GroupStart();
  for (const Piece& piece : pieces) {
    if (piece.count == 0) continue;
    const NcclResult result = call(piece);
    const bool failed = result != NcclResult::kSuccess && result != NcclResult::kInProgress;
    if (failed && first == NcclResult::kSuccess) first = result;
  }
  const NcclResult ended = nccl_.GroupEnd();
  if (first != NcclResult::kSuccess) return Error(first, "a call", comm);
  return Settle(ended, "ncclGroupEnd", comm, deadline);
}

Status NcclCommunicator::PutOn(const Collective& call, Time deadline) {
  std::vector<Piece> pieces = {{call.in, call.out, call.count}};
  pieces.insert(pieces.end(), call.more.begin(), call.more.end());
  const NcclType type = NcclTypeOf(call.dtype);
  const NcclReduce reduce = NcclReduceOf(call.reduce);
  void* const stream = side_->handle();
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      if (Hierarchical()) return PutHierarchical(call, pieces, deadline);
      return Stage(all_, pieces, deadline, [&](const Piece& p) {
        return nccl_.AllReduce(p.in, p.out, p.count, type, reduce, all_, stream);
      });
    case CollectiveOp::kReduce:
      return Stage(all_, pieces, deadline, [&](const Piece& p) {
        return nccl_.Reduce(p.in, p.out, p.count, type, reduce, call.root, all_, stream);
      });
    case CollectiveOp::kBroadcast:
      return Stage(all_, pieces, deadline, [&](const Piece& p) {
        return nccl_.Broadcast(p.in, p.out, p.count, type, call.root, all_, stream);
      });
    case CollectiveOp::kAllGather:
      return Stage(all_, pieces, deadline, [&](const Piece& p) {
        return nccl_.AllGather(p.in, p.out, p.count, type, all_, stream);
      });
    case CollectiveOp::kReduceScatter:
      return Stage(all_, pieces, deadline, [&](const Piece& p) {
        return nccl_.ReduceScatter(p.in, p.out, p.count, type, reduce, all_, stream);
      });
    case CollectiveOp::kAllToAll:
      return Stage(all_, pieces, deadline, [&](const Piece& p) { return PutAllToAll(p, call); });
    case CollectiveOp::kSendRecv:
      return Stage(all_, pieces, deadline, [&](const Piece& p) { return PutSendRecv(p, call); });
    case CollectiveOp::kBarrier: {
      const Piece word = {word_.get(), word_.get(), 1};
      return Stage(all_, {&word, 1}, deadline, [&](const Piece& p) {
        return nccl_.AllReduce(p.in, p.out, 1, NcclType::kI32, NcclReduce::kSum, all_, stream);
      });
    }
  }
  return Unimplemented("collective operation %d is not implemented with NCCL",
                       static_cast<int>(call.op));
}

// Adds sends to and receives from every rank, including this one, to the group call of Stage.
NcclResult NcclCommunicator::PutAllToAll(const Piece& piece, const Collective& call) {
  const size_t bytes = piece.count * SizeOf(call.dtype);
  for (int r = 0; r < size(); ++r) {
    const size_t at = static_cast<size_t>(r) * bytes;
    const Piece part = {static_cast<const std::byte*>(piece.in) + at,
                        static_cast<std::byte*>(piece.out) + at, piece.count};
    Collective pair = call;
    pair.to = pair.from = r;
    const NcclResult result = PutSendRecv(part, pair);
    if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) return result;
  }
  return NcclResult::kSuccess;
}

NcclResult NcclCommunicator::PutSendRecv(const Piece& piece, const Collective& call) {
  const NcclType type = NcclTypeOf(call.dtype);
  NcclResult result = NcclResult::kSuccess;
  if (call.to >= 0) {
    result = nccl_.Send(piece.in, piece.count, type, call.to, all_, side_->handle());
  }
  const bool going = result == NcclResult::kSuccess || result == NcclResult::kInProgress;
  if (call.from < 0 || !going) return result;
  return nccl_.Recv(piece.out, piece.count, type, call.from, all_, side_->handle());
}

// Runs a hierarchical allreduce in one of the two forms of collective/schedule/hierarchy.h.
Status NcclCommunicator::PutHierarchical(const Collective& call, std::span<const Piece> pieces,
                                         Time deadline) {
  const NcclType type = NcclTypeOf(call.dtype);
  const NcclReduce reduce = NcclReduceOf(call.reduce);
  void* const stream = side_->handle();
  if (options_.form == HierarchyForm::kLeaders) {
    TD_RETURN_IF_ERROR(Stage(inner_, pieces, deadline, [&](const Piece& p) {
      return nccl_.Reduce(p.in, p.out, p.count, type, reduce, 0, inner_, stream);
    }));
    TD_RETURN_IF_ERROR(Stage(outer_, pieces, deadline, [&](const Piece& p) {
      return nccl_.AllReduce(p.out, p.out, p.count, type, reduce, outer_, stream);
    }));
    return Stage(inner_, pieces, deadline, [&](const Piece& p) {
      return nccl_.Broadcast(p.out, p.out, p.count, type, 0, inner_, stream);
    });
  }
  // All shards have the same size. The remaining elements use an allreduce over all ranks.
  const auto group = static_cast<size_t>(options_.group);
  const size_t element = SizeOf(call.dtype), place = static_cast<size_t>(rank()) % group;
  std::vector<Piece> shards, rest;  // `shards`: all of `in`, and this rank's part of `out`
  for (const Piece& p : pieces) {
    const size_t shard = p.count / group, whole = shard * group;
    const auto* in = static_cast<const std::byte*>(p.in);
    auto* out = static_cast<std::byte*>(p.out);
    shards.push_back({in, out + place * shard * element, shard});
    rest.push_back({in + whole * element, out + whole * element, p.count - whole});
  }
  TD_RETURN_IF_ERROR(Stage(inner_, shards, deadline, [&](const Piece& p) {
    return nccl_.ReduceScatter(p.in, p.out, p.count, type, reduce, inner_, stream);
  }));
  TD_RETURN_IF_ERROR(Stage(outer_, shards, deadline, [&](const Piece& p) {
    return nccl_.AllReduce(p.out, p.out, p.count, type, reduce, outer_, stream);
  }));
  TD_RETURN_IF_ERROR(Stage(inner_, shards, deadline, [&](const Piece& p) {
    auto* const begin = static_cast<std::byte*>(p.out) - place * p.count * element;
    return nccl_.AllGather(p.out, begin, p.count, type, inner_, stream);
  }));
  return Stage(all_, rest, deadline, [&](const Piece& p) {
    return nccl_.AllReduce(p.in, p.out, p.count, type, reduce, all_, stream);
  });
}

template <typename Done>
Status NcclCommunicator::Await(Time deadline, Done done) {
  const Time begin = SteadyNow();
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool over, done());
    if (over) return OkStatus();
    TD_RETURN_IF_ERROR(Health());
    TD_RETURN_IF_ERROR(AsyncErrors());
    const Time now = SteadyNow();
    if (now >= deadline) {
      return DeadlineExceeded(
          "a device operation has not finished after %.1f s: a rank is missing or hangs [TD3006]; "
          "hint: find this rank with tandem status LOG_DIR",
          Seconds(now - begin));
    }
    if (now < begin + kSpin) continue;
    MutexLock lock(mu_);
    if (failure_.ok()) failed_.WaitUntil(mu_, now + kNap);
  }
}

// Waits until NCCL has submitted the operation. NCCL calls report "in progress" until then.
Status NcclCommunicator::Settle(NcclResult result, const char* what, NcclComm comm, Time deadline) {
  if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) {
    return Error(result, what, comm);
  }
  return Await(deadline, [&] { return Settled(comm, what); });
}

StatusOr<bool> NcclCommunicator::Settled(NcclComm comm, const char* what) const {
  NcclResult state = NcclResult::kSuccess;
  const NcclResult asked = nccl_.CommGetAsyncError(comm, &state);
  if (asked != NcclResult::kSuccess) return Error(asked, "ncclCommGetAsyncError", comm);
  if (state == NcclResult::kInProgress) return false;
  if (state != NcclResult::kSuccess) return Error(state, what, comm);
  return true;
}

Status NcclCommunicator::AsyncErrors() const {
  for (const NcclComm comm : comms_) {
    TD_RETURN_IF_ERROR(Settled(comm, "NCCL's own thread").status());
  }
  return OkStatus();
}

// Aborts all NCCL communicators. After that their operations access no memory.
void NcclCommunicator::AbortComms() {
  if (comms_.empty()) return;
  // An abort of one communicator frees its memory, and may wait forever for a kernel of the next
  // communicator (NVIDIA/nccl#1013). In a group call, NCCL notifies all communicators before it
  // waits.
  const bool together = comms_.size() > 1 && nccl_.version >= NcclLibrary::kVersionGroupAbort;
  if (together) (void)nccl_.GroupStart();
  for (const NcclComm comm : comms_) (void)nccl_.CommAbort(comm);
  if (together) (void)nccl_.GroupEnd();
  comms_.clear();
  all_ = inner_ = outer_ = nullptr;
  const Time deadline = SteadyNow() + kCloseTimeout;
  StatusOr<bool> idle = side_->Idle();
  while (idle.ok() && !*idle && SteadyNow() < deadline) {
    MutexLock lock(mu_);
    failed_.WaitUntil(mu_, SteadyNow() + kNap);
    idle = side_->Idle();
  }
}

void NcclCommunicator::Close() {
  (void)side_->Enter();
  // After a failure the other ranks take no part in an orderly close, so this rank aborts.
  if (!Health().ok()) return AbortComms();
  for (const NcclComm comm : comms_) {
    (void)(Finalized(comm) ? nccl_.CommDestroy(comm) : nccl_.CommAbort(comm));
  }
}

bool NcclCommunicator::Finalized(NcclComm comm) {
  const NcclResult result = nccl_.CommFinalize(comm);
  if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) return false;
  const Time deadline = SteadyNow() + kCloseTimeout;
  while (SteadyNow() < deadline) {
    const StatusOr<bool> settled = Settled(comm, "ncclCommFinalize");
    if (!settled.ok() || *settled) return settled.ok();
    MutexLock lock(mu_);
    failed_.WaitUntil(mu_, SteadyNow() + kNap);
  }
  return false;
}

}  // namespace

StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclLibrary& nccl, Device& device,
                                                    Communicator& control,
                                                    const NcclOptions& options) {
  if (options.group < 1 || control.size() % options.group != 0) {
    return InvalidArgument("%d ranks cannot be divided into groups of %d", control.size(),
                           options.group);
  }
  auto communicator = std::make_unique<NcclCommunicator>(nccl, device, control, options);
  TD_RETURN_IF_ERROR(communicator->Open());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace tandem::collective
