#include "collective/host_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/algorithms.h"
#include "collective/ring.h"
#include "common/base/check.h"
#include "common/base/runner.h"
#include "common/tensor/reduce.h"

namespace tandem {

HostCommunicator::HostCommunicator(std::unique_ptr<Transport> transport,
                                   const HostCommunicatorConfig& config,
                                   std::shared_ptr<SharedMemory> memory)
    : config_(config),
      transport_(std::move(transport)),
      queue_(config.queue_max),
      exchange_(*transport_, config.piece_bytes_max),
      board_(memory == nullptr ? nullptr : std::make_unique<Board>(memory, *transport_)),
      thread_([this] { Loop(); }) {}

HostCommunicator::~HostCommunicator() {
  const int pending = pending_.load();
  if (pending > 0) {
    Abort(absl::StrFormat("its communicator was closed with %d operations pending", pending));
  }
  queue_.Close();
  thread_.join();
}

Status HostCommunicator::Check(const Collective& call) const {
  if (!call.more.empty()) {
    return InvalidArgument("%s: memory in several pieces is for devices alone", ToString(call));
  }
  return CheckCall(call, rank(), size());
}

void HostCommunicator::Abort(const std::string& reason) {
  transport_->Abort(Aborted("%s", reason));
}

std::shared_ptr<Work> HostCommunicator::Start(Collective call) {
  const Status bad = Check(call);
  auto work = std::make_shared<StartedWork>(std::move(call));
  if (!bad.ok()) {
    work->Finish(bad);
    return work;
  }
  // The communication thread (in a callback) must not wait for itself.
  const bool inside = std::this_thread::get_id() == thread_.get_id();
  const Time deadline = inside ? Time::min() : SteadyNow() + config_.operation_timeout;
  PushResult pushed;
  {
    MutexLock lock(order_mu_);
    work->sequence = sequence_ + 1;
    pending_.fetch_add(1);
    auto item = work;
    pushed = queue_.Push(std::move(item), deadline);
    if (pushed == PushResult::kOk) ++sequence_;
  }
  if (pushed != PushResult::kOk) {
    pending_.fetch_sub(1);
    work->Refuse(pushed, config_.queue_max);
  }
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
  const uint64_t sequence = ++sequence_;
  MutexLock run(run_mu_);  // before the next operation can be queued
  order_mu_.Unlock();
  const Status status = Execute(call, sequence);
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
      status = Execute((*work)->call(), (*work)->sequence);
    }
    pending_.fetch_sub(1);
    (*work)->Finish(status);
  }
}

Status HostCommunicator::Execute(const Collective& call, uint64_t sequence) {
  Status status = transport_->Health();
  if (status.ok()) {
    const Time deadline =
        call.deadline == Time::max() ? SteadyNow() + config_.operation_timeout : call.deadline;
    status = Run(call, MakeHeader(call, config_.id, sequence), deadline);
  }
  if (status.ok()) return status;
  status = Annotate(status, absl::StrFormat("rank %d of %d, %s, operation %d", rank(), size(),
                                            ToString(call), sequence));
  transport_->Abort(status);
  return status;
}

bool HostCommunicator::Direct(size_t bytes) const {
  return bytes <= config_.direct_bytes_max && size() <= config_.direct_ranks_max;
}

Status HostCommunicator::Run(const Collective& call, const MessageHeader& header, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (board_ != nullptr) {  // in the order in which the schedules below add
    const AllReduceAlgorithm choice = ChooseAllReduce(config_, size(), bytes);
    const bool tree = choice == AllReduceAlgorithm::kPair ||
                      choice == AllReduceAlgorithm::kDirect ||
                      choice == AllReduceAlgorithm::kHalving;
    return board_->Run(call, header, tree, deadline);
  }
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
                                         : RingAllGather(rank(), size(), bytes),
                           {out, all}, header, deadline);
    }
    case CollectiveOp::kBarrier: {
      scratch_.resize(std::max<size_t>(scratch_.size(), 1));
      return exchange_.Run(DisseminationBarrier(rank(), size()), {scratch_.data(), 1}, header,
                           deadline);
    }
  }
  return Unimplemented("collective operation %d is not built yet", static_cast<int>(call.op));
}

Status HostCommunicator::RunAllReduce(const Collective& call, const MessageHeader& header,
                                      Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (ChooseAllReduce(config_, size(), bytes) == AllReduceAlgorithm::kDirect) {
    TD_RETURN_IF_ERROR(
        ExchangeParts(call, DirectAllGather(rank(), size(), bytes), header, deadline));
    ReduceParts(call, bytes);
    return OkStatus();
  }
  return ReduceInPlace(call, AllReduceSchedule(call), header, deadline);
}

// The same choice as in RunAllReduce, and so the same bits.
Status HostCommunicator::RunReduce(const Collective& call, const MessageHeader& header,
                                   Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (ChooseAllReduce(config_, size(), bytes) == AllReduceAlgorithm::kDirect) {
    TD_RETURN_IF_ERROR(
        ExchangeParts(call, DirectGather(rank(), size(), call.root, bytes), header, deadline));
    if (rank() == call.root) ReduceParts(call, bytes);
    return OkStatus();
  }
  return ReduceInPlace(call, ReduceSchedule(call), header, deadline);
}

Schedule HostCommunicator::AllReduceSchedule(const Collective& call) const {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  return tandem::AllReduceSchedule(ChooseAllReduce(config_, size(), bytes), rank(), size(),
                                   config_.group, call.count, element);
}

Schedule HostCommunicator::ReduceSchedule(const Collective& call) const {
  const size_t element = SizeOf(call.dtype), bytes = call.count * element;
  switch (ChooseAllReduce(config_, size(), bytes)) {
    case AllReduceAlgorithm::kPair:
      return PairReduce(rank(), call.root, bytes);
    case AllReduceAlgorithm::kHalving:
      return HalvingReduce(rank(), size(), call.root, call.count, element);
    case AllReduceAlgorithm::kDirect:  // RunReduce's own affair
    case AllReduceAlgorithm::kRing:
      return RingReduce(rank(), size(), call.root, call.count, element);
    case AllReduceAlgorithm::kLeaders:
    case AllReduceAlgorithm::kShards:
      return AllReduceSchedule(call);  // on the other ranks `out` is scratch
  }
  return {};
}

// By `schedule`: everybody's input into its part of scratch_.
Status HostCommunicator::ExchangeParts(const Collective& call, const Schedule& schedule,
                                       const MessageHeader& header, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype), all = bytes * static_cast<size_t>(size());
  scratch_.resize(std::max(scratch_.size(), all));
  if (bytes > 0) std::memcpy(scratch_.data() + bytes * static_cast<size_t>(rank()), call.in, bytes);
  return exchange_.Run(schedule, {scratch_.data(), all}, header, deadline);
}

Status HostCommunicator::ReduceInPlace(const Collective& call, const Schedule& schedule,
                                       const MessageHeader& header, Time deadline) {
  const size_t bytes = call.count * SizeOf(call.dtype);
  if (call.in != call.out && bytes > 0) std::memcpy(call.out, call.in, bytes);
  return exchange_.Run(schedule, {static_cast<std::byte*>(call.out), bytes}, header, deadline);
}

void HostCommunicator::ReduceParts(const Collective& call, size_t bytes) {
  if (bytes == 0) return;
  std::vector<const std::byte*> parts;
  for (size_t r = 0; r < static_cast<size_t>(size()); ++r) {
    parts.push_back(scratch_.data() + r * bytes);
  }
  std::byte* const out = static_cast<std::byte*>(call.out);
  ReduceTree(call.reduce, call.dtype, parts, {&out, 1}, call.count);
}

}  // namespace tandem
