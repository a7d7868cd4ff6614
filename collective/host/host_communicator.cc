#include "collective/host/host_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/schedule/algorithms.h"
#include "collective/schedule/halving.h"
#include "collective/schedule/ring.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/tensor/reduce.h"
#include "common/threads/runner.h"

namespace tandem::collective {

HostCommunicator::HostCommunicator(std::unique_ptr<Transport> transport,
                                   const HostCommunicatorConfig& config,
                                   std::shared_ptr<SharedMemory> memory)
    : config_(config),
      transport_(std::move(transport)),
      queue_(config.queue_max),
      board_(memory == nullptr ? nullptr
                               : std::make_unique<ShmCollectives>(std::move(memory), *transport_)),
      pipes_(board_ == nullptr ? nullptr : std::make_unique<ShmTransport>(*board_, *transport_)),
      exchange_(board_ == nullptr ? *transport_ : *pipes_, config.piece_bytes_max),
      sent_(static_cast<size_t>(transport_->size())),
      received_(sent_.size()),
      thread_([this] { Loop(); }) {
  TD_REQUIRE(transport_->rank() >= 0 && transport_->rank() < transport_->size());
}

HostCommunicator::~HostCommunicator() {
  const int pending = pending_.load();
  if (pending > 0) {
    Abort(absl::StrFormat("the communicator was closed with %d pending operations", pending));
  }
  queue_.Close();
  thread_.join();
}

Status HostCommunicator::Check(const Collective& call) const {
  if (!call.more.empty()) {
    return InvalidArgument("%s: buffers of several segments are supported only on devices",
                           ToString(call));
  }
  return CheckCall(call, rank(), size());
}

void HostCommunicator::Abort(const std::string& reason) {
  transport_->Abort(Aborted("%s", reason));
}

std::shared_ptr<Work> HostCommunicator::Start(Collective call) {
  const Status bad = Check(call);
  auto work = std::make_shared<WorkImpl>(std::move(call));
  if (!bad.ok()) {
    work->Finish(bad);
    return work;
  }
  // A callback on the communication thread must not wait for space in the queue, because only this
  // thread empties the queue. Other threads wait without order_mu_, which such a callback needs.
  const bool inside = std::this_thread::get_id() == thread_.get_id();
  const Time deadline = SteadyNow() + config_.operation_timeout;
  PushResult pushed;
  do {
    MutexLock lock(order_mu_);
    pending_.fetch_add(1);
    auto item = work;
    pushed = queue_.TryPush(std::move(item));
    if (pushed != PushResult::kOk) pending_.fetch_sub(1);
  } while (pushed == PushResult::kFull && !inside && queue_.WaitForSpace(deadline));
  if (pushed != PushResult::kOk) work->Refuse(pushed, config_.queue_max);
  return work;
}

Status HostCommunicator::Call(Collective call) {
  TD_RETURN_IF_ERROR(Check(call));
  order_mu_.Lock();
  const bool idle = pending_.load() == 0;
  if (!idle) {
    order_mu_.Unlock();
    return Start(std::move(call))->Wait(Time::max());
  }
  pending_.fetch_add(1);
  MutexLock run(run_mu_);  // acquired before another call can queue an operation
  order_mu_.Unlock();
  Status status = Execute(call);
  pending_.fetch_sub(1);
  return status;
}

StatusOr<Buffer> HostCommunicator::Allocate(size_t bytes) {
  if (board_ != nullptr) {
    if (Buffer buffer = board_->Allocate(bytes)) return buffer;
  }
  return Communicator::Allocate(bytes);
}

void HostCommunicator::Loop() {
  SetThreadName("comm-" + config_.name);
  while (auto work = queue_.Pop(Time::max())) {
    Status status;
    {
      MutexLock run(run_mu_);
      status = Execute((*work)->call());
    }
    pending_.fetch_sub(1);
    (*work)->Finish(status);
  }
}

Status HostCommunicator::Execute(const Collective& call) {
  const bool message = call.op == CollectiveOp::kSendRecv;
  if (!message) ++collectives_;
  Status status = transport_->Health();
  if (status.ok()) {
    const Time deadline =
        call.deadline == Time::max() ? SteadyNow() + config_.operation_timeout : call.deadline;
    status = message ? RunMessage(call, deadline)
                     : Run(call, MakeHeader(call, config_.id, collectives_), deadline);
  }
  if (status.ok()) return status;
  std::string where = absl::StrFormat("rank %d of %d, %s", rank(), size(), ToString(call));
  if (!message) where += absl::StrFormat(", operation %d", collectives_);
  status = Annotate(status, where);
  transport_->Abort(status);
  return status;
}

bool HostCommunicator::Direct(size_t bytes) const {
  return bytes <= config_.rule.direct_bytes_max && size() <= config_.rule.direct_ranks_max;
}

Status HostCommunicator::RunMessage(const Collective& call, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  MessageHeader sent = MakeHeader(call, config_.id, 0, rank(), call.to);
  MessageHeader expected = MakeHeader(call, config_.id, 0, call.from, rank());
  if (call.to >= 0) sent.sequence = ++sent_[static_cast<size_t>(call.to)];
  if (call.from >= 0) expected.sequence = ++received_[static_cast<size_t>(call.from)];
  auto* data = static_cast<std::byte*>(call.out);
  if (call.from < 0) {  // the call only sends
    data = const_cast<std::byte*>(static_cast<const std::byte*>(call.in));
  } else if (call.to >= 0 && call.in != call.out && bytes > 0) {
    std::memcpy(data, call.in, bytes);
  }
  return exchange_.Run(PointToPoint(call.to, call.from, bytes), {data, bytes}, sent, expected,
                       deadline);
}

Status HostCommunicator::Run(const Collective& call, const MessageHeader& header, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (board_ != nullptr && (call.group > 0 || !ShmCollectives::Runs(call.op))) {
    TD_RETURN_IF_ERROR(board_->Agree(header, deadline));
  } else if (board_ != nullptr) {  // the order of additions is the same as in the schedules below
    const bool tree = AddsTree(ChooseAllReduce(config_.rule, size(), bytes));
    return board_->Run(call, header, tree, deadline);
  }
  if (call.group > 0) return RunInGroups(call, header, deadline);
  std::byte* const out = static_cast<std::byte*>(call.out);
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      return RunAllReduce(call, header, deadline);
    case CollectiveOp::kReduce:
      return RunReduce(call, header, deadline);
    case CollectiveOp::kBroadcast: {
      const bool direct = size() == 2 || Direct(bytes);
      return exchange_.Run(direct ? DirectBroadcast(rank(), size(), call.root, bytes)
                                  : ChainBroadcast(rank(), size(), call.root, bytes),
                           {out, bytes}, header, deadline);
    }
    case CollectiveOp::kAllGather: {
      const size_t all = bytes * static_cast<size_t>(size());
      std::byte* const own = out + bytes * static_cast<size_t>(rank());
      if (own != call.in && bytes > 0) std::memcpy(own, call.in, bytes);
      return exchange_.Run(Direct(bytes) ? DirectAllGather(rank(), size(), bytes)
                                         : RingAllGather(rank(), size(), all, 1),
                           {out, all}, header, deadline);
    }
    case CollectiveOp::kBarrier: {
      scratch_.resize(std::max<size_t>(scratch_.size(), 1));
      return exchange_.Run(DisseminationBarrier(rank(), size()), {scratch_.data(), 1}, header,
                           deadline);
    }
    case CollectiveOp::kReduceScatter:
      return RunReduceScatter(call, header, deadline);
    case CollectiveOp::kAllToAll:
      return ExchangeInPlace(call, bytes * static_cast<size_t>(size()),
                             PairwiseAllToAll(rank(), size(), bytes), header, deadline);
    case CollectiveOp::kSendRecv:
      break;  // RunMessage runs this operation
  }
  return Unimplemented("collective operation %d is not implemented", static_cast<int>(call.op));
}

Status HostCommunicator::RunInGroups(const Collective& call, const MessageHeader& header,
                                     Time deadline) {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  if (call.op == CollectiveOp::kBroadcast) {
    return exchange_.Run(BroadcastInGroups(rank(), call.group, call.root, bytes),
                         {static_cast<std::byte*>(call.out), bytes}, header, deadline);
  }
  const bool tree = AddsTree(ChooseAllReduce(config_.rule, size(), bytes));
  return ExchangeInPlace(
      call, bytes, ReduceToGroups(tree, rank(), size(), call.group, call.root, call.count, element),
      header, deadline);
}

Status HostCommunicator::RunAllReduce(const Collective& call, const MessageHeader& header,
                                      Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (ChooseAllReduce(config_.rule, size(), bytes) == AllReduceAlgorithm::kDirect) {
    TD_RETURN_IF_ERROR(
        ExchangeParts(call, DirectAllGather(rank(), size(), bytes), header, deadline));
    ReduceParts(call, bytes);
    return OkStatus();
  }
  return ExchangeInPlace(call, bytes, AllReduceSchedule(call), header, deadline);
}

// Runs a reduce. The algorithm is that of RunAllReduce, so the result has the same bits as an
// allreduce.
Status HostCommunicator::RunReduce(const Collective& call, const MessageHeader& header,
                                   Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (ChooseAllReduce(config_.rule, size(), bytes) == AllReduceAlgorithm::kDirect) {
    TD_RETURN_IF_ERROR(
        ExchangeParts(call, DirectGather(rank(), size(), call.root, bytes), header, deadline));
    if (rank() == call.root) ReduceParts(call, bytes);
    return OkStatus();
  }
  return ExchangeInPlace(call, bytes, ReduceSchedule(call), header, deadline);
}

Schedule HostCommunicator::AllReduceSchedule(const Collective& call) const {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  return tandem::collective::AllReduceSchedule(ChooseAllReduce(config_.rule, size(), bytes), rank(),
                                               size(), config_.rule.group, call.count, element);
}

Schedule HostCommunicator::ReduceSchedule(const Collective& call) const {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  switch (ChooseAllReduce(config_.rule, size(), bytes)) {
    case AllReduceAlgorithm::kPair:
      return PairReduce(rank(), call.root, bytes);
    case AllReduceAlgorithm::kHalving:
      return HalvingReduce(rank(), size(), call.root, call.count, element);
    case AllReduceAlgorithm::kDirect:  // RunReduce runs this algorithm
    case AllReduceAlgorithm::kRing:
      return RingReduce(rank(), size(), call.root, call.count, element);
    case AllReduceAlgorithm::kLeaders:
    case AllReduceAlgorithm::kShards:
      // This schedule is an allreduce. Ranks other than the root get the result as scratch data.
      return AllReduceSchedule(call);
  }
  return {};
}

// Copies this rank's input to its part of scratch_, then runs `schedule` on scratch_.
Status HostCommunicator::ExchangeParts(const Collective& call, const Schedule& schedule,
                                       const MessageHeader& header, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype), all = bytes * static_cast<size_t>(size());
  scratch_.resize(std::max(scratch_.size(), all));
  if (bytes > 0) std::memcpy(scratch_.data() + bytes * static_cast<size_t>(rank()), call.in, bytes);
  return exchange_.Run(schedule, {scratch_.data(), all}, header, deadline);
}

Status HostCommunicator::ExchangeInPlace(const Collective& call, size_t bytes,
                                         const Schedule& schedule, const MessageHeader& header,
                                         Time deadline) {
  if (call.in != call.out && bytes > 0) std::memcpy(call.out, call.in, bytes);
  return exchange_.Run(schedule, {static_cast<std::byte*>(call.out), bytes}, header, deadline);
}

// Runs a reduce-scatter. The algorithm is that of an allreduce of all parts, so the result has the
// same bits as this rank's part of that allreduce.
Status HostCommunicator::RunReduceScatter(const Collective& call, const MessageHeader& header,
                                          Time deadline) {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  const size_t all = bytes * static_cast<size_t>(size()), own = bytes * static_cast<size_t>(rank());
  const AllReduceAlgorithm algorithm = ChooseAllReduce(config_.rule, size(), all);
  auto* const out = static_cast<std::byte*>(call.out);
  const bool in_place = bytes > 0 && out == static_cast<const std::byte*>(call.in) + own;
  std::byte* work = out - (in_place ? own : 0);
  if (!in_place || AddsTree(algorithm)) {
    scratch_.resize(std::max(scratch_.size(), all));
    work = scratch_.data();
    if (all > 0) std::memcpy(work, call.in, all);
  }
  const Schedule schedule =
      ReduceScatterSchedule(algorithm, rank(), size(), config_.rule.group, all / element, element);
  TD_RETURN_IF_ERROR(exchange_.Run(schedule, {work, all}, header, deadline));
  if (AddsTree(algorithm)) {
    ReduceParts(call, bytes);
  } else if (!in_place && bytes > 0) {
    std::memcpy(out, work + own, bytes);
  }
  return OkStatus();
}

void HostCommunicator::ReduceParts(const Collective& call, size_t bytes) {
  if (bytes == 0) return;
  TD_REQUIRE(scratch_.size() >= static_cast<size_t>(size()) * bytes);
  std::vector<const std::byte*> parts;
  for (size_t r = 0; r < static_cast<size_t>(size()); ++r) {
    parts.push_back(scratch_.data() + r * bytes);
  }
  std::byte* const out = static_cast<std::byte*>(call.out);
  ReduceTree(call.reduce, call.dtype, parts, {&out, 1}, call.count);
}

}  // namespace tandem::collective
