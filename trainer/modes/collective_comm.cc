#include "trainer/modes/collective_comm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "trainer/modes/rank_world.h"

namespace tandem::trainer {

// A flight that completes may launch the next flight on any communicator. Therefore all
// communicators must exist until the last flight has ended.
void CollectiveComm::EndFlights() {
  MutexLock lock(mu_);
  if (busy_)
    communicators_.Abort(Cancelled("the training mode was closed while communication was pending"));
  while (busy_) idle_.WaitUntil(mu_, Time::max());
  DCHECK(waiting_.empty());
}

Status CollectiveComm::GiveMemory(CommBucket& bucket) {
  if (!bucket.is_flat) return OkStatus();
  const size_t bytes = bucket.count * SizeOf(bucket.dtype);
  if (bucket.borrows) {
    flats_.Reserve(bytes);
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(bucket.flat, CommunicatorOf(bucket).Allocate(bytes));
  return OkStatus();
}

Status CollectiveComm::AllocateBuckets() {
  for (const auto& bucket : buckets_) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  return OkStatus();
}

std::vector<ReducedBucket> CollectiveComm::Reduced() const {
  std::vector<ReducedBucket> reduced;
  for (const auto& bucket : buckets_) {
    if (bucket->op != collective::CollectiveOp::kAllReduce || bucket->ends != nullptr) continue;
    reduced.push_back({bucket->name, bucket->count * SizeOf(bucket->dtype)});
  }
  return reduced;
}

StatusOr<int> CollectiveComm::Register(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(auto bucket,
                      CommBucket::Make(node, options_.common.rank, options_.common.ranks,
                                       options_.common.half_communication));
  bucket->index = buckets_.size();
  if (node.op->type == "c_allreduce_end") {
    TD_ASSIGN_OR_RETURN(bucket->ends, BegunBy(node));
    bucket->is_flat = false;  // the bucket of c_allreduce_begin has the memory
  }
  if (!communicators_.empty()) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  buckets_.push_back(std::move(bucket));
  return static_cast<int>(buckets_.size()) - 1;
}

StatusOr<CommBucket*> CollectiveComm::BegunBy(const exec::CommNode& node) const {
  for (const auto& bucket : buckets_) {
    if (bucket->overlapped == nullptr) continue;
    const bool same = std::equal(
        bucket->tensors.begin(), bucket->tensors.end(), node.out.begin(), node.out.end(),
        [](const exec::CommTensor& a, const exec::CommTensor& b) { return a.var == b.var; });
    if (same) return bucket.get();
  }
  return FailedPrecondition(
      "c_allreduce_end of \"%s\": no c_allreduce_begin before it has the same variables [TD1205]",
      node.out.front().var);
}

void CollectiveComm::EndOverlapped(CommBucket& begun, int64_t step, exec::CommDone* done) {
  waits_.Began();
  begun.overlapped->End([this, done, step](const Status& status) {
    waits_.Ended();
    done->Complete(Annotate(status, absl::StrFormat("result at step %d", DisplayStep(step))));
  });
}

Status CollectiveComm::WaitForOverlapped(Time deadline) {
  Status first;
  for (const auto& bucket : buckets_) {
    if (bucket->overlapped == nullptr) continue;
    const Status ended = bucket->overlapped->WaitUntilEnded(deadline);
    if (first.ok()) first = ended;
  }
  return first;
}

bool CollectiveComm::overlapped_in_flight() {
  return std::any_of(buckets_.begin(), buckets_.end(), [](const auto& bucket) {
    return bucket->overlapped != nullptr && bucket->overlapped->in_flight();
  });
}

void CollectiveComm::Start(int index, int64_t step, exec::CommDone* done) {
  TD_REQUIRE(index >= 0 && static_cast<size_t>(index) < buckets_.size());
  CommBucket* const bucket = buckets_[static_cast<size_t>(index)].get();
  if (bucket->ends != nullptr) return EndOverlapped(*bucket->ends, step, done);
  Flight flight = {bucket, step, done};
  if (bucket->overlapped != nullptr) {
    bucket->overlapped->Begin();
    flight.done = bucket->overlapped.get();
    Launch(flight, nullptr);
    return done->Complete(OkStatus());
  }
  // In the first operations NCCL connects and CUDA loads code. If other work waited for the device
  // at that time, different ranks could queue kernels of different communicators. Therefore the
  // operations of the first step run one at a time.
  const bool first_of_devices = communicators_.between_devices() && step == first_step_;
  const bool in_turn = options_.one_comm_at_a_time || first_of_devices;
  // A single communicator always runs its operations in sequence.
  if (!in_turn || communicators_.size() == 1) return Launch(flight, nullptr);
  {
    MutexLock lock(mu_);
    waiting_.push_back(flight);
    if (busy_) return;
    busy_ = true;
  }
  LaunchNext();
}

void CollectiveComm::LaunchNext() {
  Flight next;
  {
    MutexLock lock(mu_);
    busy_ = !waiting_.empty();
    if (!busy_) {
      idle_.NotifyAll();
      return;
    }
    next = waiting_.front();
    waiting_.pop_front();
  }
  Launch(next, [this] { LaunchNext(); });
}

void CollectiveComm::Launch(const Flight& flight, std::function<void()> then) {
  TD_REQUIRE(flight.bucket != nullptr && flight.done != nullptr);
  CommBucket* bucket = flight.bucket;
  const auto end = [this, bucket, flight, then = std::move(then)](const Status& status) {
    if (bucket->borrows && bucket->flat != nullptr) flats_.Give(std::move(bucket->flat));
    flight.done->Complete(
        AsLostPeer(Annotate(status, absl::StrFormat("step %d", DisplayStep(flight.step)))));
    if (then != nullptr) then();
  };
  if (bucket->is_flat && bucket->borrows) {
    StatusOr<Buffer> flat = flats_.Take(CommunicatorOf(*bucket));
    if (!flat.ok()) return end(flat.status());
    bucket->flat = *std::move(flat);
  }
  const StatusOr<size_t> given = bucket->Gather();
  if (!given.ok()) return end(given.status());
  const int64_t launched = ++launched_;
  int64_t before = launched_max_.load();
  while (before < launched && !launched_max_.compare_exchange_weak(before, launched)) {
  }
  // An overlapped flight is no waiting time. EndOverlapped measures the waiting time.
  const bool waits = bucket->overlapped == nullptr;
  if (waits) waits_.Began();
  bytes_ += static_cast<int64_t>(*given * SizeOf(bucket->dtype));
  CommunicatorOf(*bucket)
      .Start(bucket->Call(*given))
      ->OnDone([this, bucket, waits, count = *given, end](const Status& status) {
        --launched_;
        if (waits) waits_.Ended();
        end(status.ok() ? bucket->Scatter(count) : status);
      });
}

void CollectiveComm::AddCounts(ModeCounts* counts) const {
  counts->comm_at_once = static_cast<double>(launched_max_.load());
  counts->comm_bytes = static_cast<double>(bytes_.load());
  counts->comm_flat_bytes = static_cast<double>(flats_.bytes());
}

}  // namespace tandem::trainer
