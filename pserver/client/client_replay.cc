// The part of PsClient for servers that log only the order of pushes (durability=replayable). It
// keeps pushes until a checkpoint holds them and retransmits them to a restarted server.
#include <string_view>
#include <utility>

#include "common/base/step_number.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/client_impl.h"

namespace tandem::ps {
namespace {

constexpr Duration kRoomPause = std::chrono::milliseconds(20);

}  // namespace

Duration PauseOf(int attempts) {
  return std::chrono::milliseconds(std::min(1 << std::min(attempts, 10), 100));
}

// ---- Calls --------------------------------------------------------------------------------------

struct PsClient::Impl::ReplayRetryCall {
  const Server& server;
  const char* method;
  codec::EncodedMessage request;
  Time deadline;
  PsChannel::Take take;
  int attempts = 0;
};

void PsClient::Impl::Send(const Server& server, const char* method, codec::EncodedMessage request,
                          Time deadline, PsChannel::Take take) {
  if (reports) {
    ++waiting;
    take = [this, take = std::move(take)](const Status& status, codec::Fragments answer) {
      --waiting;
      take(status, answer);
    };
    ReportLater();
  }
  const bool patient = kept != nullptr || std::string_view(method) == "Configure";
  if (patient) {
    return SendWithReplayRetry(std::make_shared<ReplayRetryCall>(
        ReplayRetryCall{server, method, std::move(request), deadline, std::move(take)}));
  }
  carrier->Call(server.index, method, std::move(request), deadline,
                [&server, take = std::move(take)](const Status& status, codec::Fragments answer) {
                  take(Annotate(status, server.name), answer);
                });
}

void PsClient::Impl::SendWithReplayRetry(std::shared_ptr<ReplayRetryCall> call) {
  carrier->Call(call->server.index, call->method, call->request, call->deadline,
                [this, call](const Status& status, codec::Fragments answer) {
                  const bool asks = status.code() == StatusCode::kDataLoss;
                  const bool waits = status.code() == StatusCode::kUnavailable && kept != nullptr;
                  const Duration pause = PauseOf(call->attempts++);
                  const bool time = carrier->Now() + pause < call->deadline;
                  if ((!asks && !waits) || !time) {
                    return call->take(Annotate(status, call->server.name), answer);
                  }
                  if (asks && kept != nullptr) SendAgain(static_cast<size_t>(call->server.index));
                  carrier->After(pause, [this, call] { TryAgain(call); });
                });
}

// Configure calls the servers in order. An earlier server may wait for pushes that were lost with
// this trainer's predecessor. A trainer that waits there may be the one for which this server
// waits.
void PsClient::Impl::TryAgain(std::shared_ptr<ReplayRetryCall> call) {
  std::set<size_t> before;
  if (kept == nullptr) {
    for (int i = 0; i < call->server.index; ++i) before.insert(static_cast<size_t>(i));
  }
  Exchange(before, [this, call] { SendWithReplayRetry(call); });
}

// ---- Kept pushes --------------------------------------------------------------------------------

void PsClient::Impl::Begin(std::shared_ptr<OnePush> push) {
  if (kept == nullptr) return SendOnce(std::move(push));
  bool first = false;
  {
    MutexLock lock(mu);
    if (!held.empty() || !kept->Reserve(push->step, push->part.bytes)) {
      first = held.empty();
      held.push_back(push);
      push = nullptr;
    }
  }
  if (push != nullptr) return SendKept(std::move(push));
  if (!first) return;
  ++waiting;
  ReportLater();
  MakeRoom();
}

void PsClient::Impl::SendKept(std::shared_ptr<OnePush> push) {
  push->part = kept->Keep({push->part, push->step, push->learning_rate});
  SendOnce(std::move(push));
}

void PsClient::Impl::MakeRoom() {
  std::vector<std::shared_ptr<OnePush>> ready, late;
  std::map<size_t, uint64_t> oldest;
  bool more = false;
  {
    MutexLock lock(mu);
    while (!held.empty()) {
      const auto& next = held.front();
      const bool over = carrier->Now() >= next->deadline;
      if (!over && !kept->Reserve(next->step, next->part.bytes)) break;
      (over ? late : ready).push_back(next);
      held.pop_front();
    }
    more = !held.empty();
    if (more) oldest = kept->Oldest(held.front()->step);
    std::erase_if(oldest, [this](const auto& o) TD_NO_ANALYSIS { return asked.contains(o.first); });
    for (const auto& [server, number] : oldest) asked.insert(server);
  }
  for (const auto& [server, number] : oldest) AskForCheckpoint(server, number);
  for (auto& push : ready) SendKept(push);
  for (auto& push : late) {
    Finish(*push, ResourceExhausted("push of step %d: the trainer keeps %d bytes of pushes, but "
                                    "the servers write no checkpoint (durability replayable) "
                                    "[TD4016]; hint: raise --keep_pushes_mb of the pservers",
                                    DisplayStep(push->step), kept->bytes()));
  }
  if (!more) {
    --waiting;
    return;
  }
  carrier->After(kRoomPause, [this] { MakeRoom(); });
}

void PsClient::Impl::AskForCheckpoint(size_t server, uint64_t number) {
  SaveCheckpointRequest request;
  request.set_job(options.job);
  request.set_unless_kept(number);
  Send(ServerAt(server), "SaveCheckpoint", rpc::EncodedProto(request),
       carrier->Now() + call_timeout(),
       [this, server](const Status& status, codec::Fragments answer) {
         SaveCheckpointReply reply;
         if (status.ok() && rpc::ParseMessage(answer, &reply).ok()) {
           kept->Checkpointed(server, reply.kept_number());
         }
         LOG_IF_EVERY_N(WARNING, !status.ok(), 50)
             << "cannot request a checkpoint: " << ToString(status);
         MutexLock lock(mu);
         asked.erase(server);
       });
}

void PsClient::Impl::Ended(const OnePush& push, const Status& status, const PushNumbers& numbers) {
  const size_t server = push.part.server;
  if (status.ok()) {
    kept->Answered(server, push.part.sequence, numbers.log_number);
    return kept->Checkpointed(server, numbers.kept_number);
  }
  switch (status.code()) {
    // These errors reject the push, unless they concern the pull. In doubt the push may have been
    // accepted and is kept.
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
      if (push.pull == nullptr) kept->Drop(server, push.part.sequence);
      break;
    // Rejected, or accepted and not logged.
    case StatusCode::kResourceExhausted:
      kept->Doubtful(server, push.part.sequence);
      break;
    default:
      break;
  }
}

// ---- Retransmission -----------------------------------------------------------------------------

// Retransmits all kept pushes of a server, some at a time.
struct PsClient::Impl::Resending {
  const size_t server;
  const std::vector<std::shared_ptr<const KeptPush>> pushes;
  std::atomic<size_t> next = 0;
  std::atomic<int> under_way = kAtOnce;
  static constexpr int kAtOnce = 8;
};

void PsClient::Impl::SendAgain(size_t server) {
  {
    MutexLock lock(mu);
    if (!resent.insert(server).second) return;
  }
  const auto all = std::make_shared<Resending>(server, kept->Of(server));
  for (int i = 0; i < Resending::kAtOnce; ++i) SendNext(all);
}

void PsClient::Impl::SendNext(const std::shared_ptr<Resending>& all) {
  const size_t next = all->next++;
  if (next >= all->pushes.size()) {
    if (all->under_way.fetch_sub(1) != 1) return;
    MutexLock lock(mu);
    resent.erase(all->server);
    return;
  }
  const KeptPush& push = *all->pushes[next];
  const codec::CodedPush coded = Coded(push.part, push.step, push.learning_rate, "");
  carrier->Call(static_cast<int>(all->server), "Push", codec::EncodePush(coded, options.crc32c),
                carrier->Now() + call_timeout(),
                [this, all, next](const Status& status, codec::Fragments answer) {
                  PushNumbers numbers;
                  if (status.ok() && TakePushReply(nullptr, answer, &numbers).ok()) {
                    kept->Answered(all->server, all->pushes[next]->part.sequence,
                                   numbers.log_number);
                  }
                  // DATA_LOSS: the server needs other pushes, not this one. If it needs none, or is
                  // lost, the retransmission ends.
                  const bool go_on = status.ok() || status.code() == StatusCode::kDataLoss;
                  if (!go_on) all->next = all->pushes.size();
                  SendNext(all);
                });
}

}  // namespace tandem::ps
