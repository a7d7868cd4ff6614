#include "pserver/client/pushes/resender.h"

#include <atomic>
#include <utility>

#include "common/base/require.h"

namespace tandem::ps {

// The kept pushes of one server while the client retransmits them, up to kAtOnce at a time.
struct Resender::Resending {
  Resending(size_t s, std::vector<std::shared_ptr<const KeptPush>> p)
      : server(s), pushes(std::move(p)) {}

  const size_t server;
  const std::vector<std::shared_ptr<const KeptPush>> pushes;
  std::atomic<size_t> next = 0;
  std::atomic<int> under_way = kAtOnce;
  static constexpr int kAtOnce = 8;
};

void Resender::Enable(size_t bytes_max) {
  TD_REQUIRE(!enabled());
  kept_ = std::make_unique<PushRetransmitBuffer>(bytes_max);
}

PushRetransmitBuffer& Resender::kept() {
  TD_REQUIRE(enabled());
  return *kept_;
}

void Resender::OnEnd(const PushPart& part, bool pulls, const Status& status,
                     const PushNumbers& numbers) {
  TD_REQUIRE(enabled());
  if (status.ok()) {
    kept_->Answered(part.server, part.header.sequence, numbers.log_number);
    return kept_->Checkpointed(part.server, numbers.kept_number);
  }
  switch (status.code()) {
    // With these errors, the server rejected the push, or only the pull in the message failed. If
    // the message had a pull, the server may have accepted the push, so the buffer keeps the push.
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
      if (!pulls) kept_->Drop(part.server, part.header.sequence);
      break;
    // The server rejected the push, or accepted the push and could not log it.
    case StatusCode::kResourceExhausted:
      kept_->Doubtful(part.server, part.header.sequence);
      break;
    default:
      break;
  }
}

void Resender::SendAgain(size_t server) {
  if (!enabled()) return;
  {
    MutexLock lock(mu_);
    if (!resending_.insert(server).second) return;
  }
  const auto all = std::make_shared<Resending>(server, kept_->Of(server));
  for (int i = 0; i < Resending::kAtOnce; ++i) SendNext(all);
}

void Resender::SendNext(const std::shared_ptr<Resending>& all) {
  const size_t next = all->next++;
  if (next >= all->pushes.size()) {
    if (all->under_way.fetch_sub(1) != 1) return;
    MutexLock lock(mu_);
    resending_.erase(all->server);
    return;
  }
  const KeptPush& push = *all->pushes[next];
  const codec::CodedPush coded = ToCoded(push.part, "");
  channel_.Call(static_cast<int>(all->server), rpc::PserverCall::kPush, codec::EncodePush(coded),
                channel_.Now() + options_.patience.call_timeout(),
                [this, all, next](const Status& status, codec::Fragments answer) {
                  if (status.ok()) {
                    const auto reply = codec::DecodePushReply(answer);
                    if (reply.ok()) {
                      kept_->Answered(all->server, all->pushes[next]->part.header.sequence,
                                      reply->log_number);
                    }
                  }
                  // DATA_LOSS: the server did not need this push, but needs other pushes. Any other
                  // error ends the retransmission: the server needs no pushes, or is lost.
                  const bool go_on = status.ok() || status.code() == StatusCode::kDataLoss;
                  if (!go_on) all->next = all->pushes.size();
                  SendNext(all);
                });
}

}  // namespace tandem::ps
