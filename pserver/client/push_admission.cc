#include "pserver/client/push_admission.h"

#include <map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

constexpr Duration kRoomPause = std::chrono::milliseconds(20);

}  // namespace

void PushAdmission::Admit(uint64_t step, size_t bytes, Time deadline, Then then) {
  TD_REQUIRE(resender_.enabled());
  bool first = false;
  {
    MutexLock lock(mu_);
    if (!waiting_.empty() || !resender_.kept().Reserve(step, bytes)) {
      first = waiting_.empty();
      waiting_.push_back({step, bytes, deadline, std::exchange(then, nullptr)});
    }
  }
  if (then) return then(OkStatus());
  if (!first) return;
  reporter_.Begin();
  MakeRoom();
}

void PushAdmission::MakeRoom() {
  PushRetransmitBuffer& kept = resender_.kept();
  std::vector<Waiting> ready, late;
  std::map<size_t, uint64_t> oldest;
  bool more = false;
  {
    MutexLock lock(mu_);
    while (!waiting_.empty()) {
      Waiting& next = waiting_.front();
      const bool over = caller_.Now() >= next.deadline;
      if (!over && !kept.Reserve(next.step, next.bytes)) break;
      (over ? late : ready).push_back(std::move(next));
      waiting_.pop_front();
    }
    more = !waiting_.empty();
    if (more) oldest = kept.Oldest(waiting_.front().step);
    for (auto it = oldest.begin(); it != oldest.end();) {
      it = asked_.insert(it->first).second ? std::next(it) : oldest.erase(it);
    }
  }
  for (const auto& [server, number] : oldest) AskForCheckpoint(server, number);
  for (const Waiting& push : ready) push.then(OkStatus());
  for (const Waiting& push : late) {
    push.then(ResourceExhausted(
        "push of step %d: the trainer's memory for retransmission is full (%d bytes), and no "
        "checkpoint of the servers freed it in time [TD4016]; hint: raise --keep_pushes_mb of the "
        "pservers",
        DisplayStep(push.step), kept.bytes()));
  }
  if (!more) return reporter_.End();
  caller_.After(kRoomPause, [this] { MakeRoom(); });
}

void PushAdmission::AskForCheckpoint(size_t server, uint64_t number) {
  SaveCheckpointRequest request;
  request.set_job(options_.job);
  request.set_unless_kept(number);
  caller_.Send(placement_.ServerAt(server), rpc::PserverCall::kSaveCheckpoint,
               rpc::EncodedProto(request), caller_.Now() + options_.patience.call_timeout(),
               [this, server](const Status& status, codec::Fragments answer) {
                 SaveCheckpointReply reply;
                 if (status.ok() && rpc::ParseMessage(answer, &reply).ok()) {
                   resender_.kept().Checkpointed(server, reply.kept_number());
                 }
                 LOG_IF_EVERY_N(WARNING, !status.ok(), 50)
                     << "cannot request a checkpoint: " << ToString(status);
                 MutexLock lock(mu_);
                 asked_.erase(server);
               });
}

void PushAdmission::Close() {
  std::deque<Waiting> none;
  {
    MutexLock lock(mu_);
    none.swap(waiting_);
  }
  for (const Waiting& push : none) push.then(Cancelled("the client is shutting down"));
}

}  // namespace tandem::ps
