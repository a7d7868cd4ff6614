#include "tests/sim/carrier.h"

#include <utility>

#include "common/base/crc32c.h"
#include "pserver/client/carrier/retry.h"
#include "tests/sim/bytes.h"

namespace tandem::pserver {

using std::chrono::milliseconds;

struct SimCarrier::Shared {
  SimNetwork& network;
  const std::vector<SimAddress*> servers;
  const int retries;
  // Calls in progress, by number in the order of their start.
  std::map<uint64_t, std::shared_ptr<OneCall>> open;
  // Pauses in progress by number, with the function that continues after the pause.
  std::map<uint64_t, std::function<void()>> pauses;
  uint64_t made = 0;
  bool closing = false;
};

// A call with all its attempts. OneCall accepts only the reply to the current attempt.
struct SimCarrier::OneCall : std::enable_shared_from_this<OneCall> {
  void Attempt() {
    if (done) return;
    retries.Begin();
    Send(retries.attempts());
  }
  void Send(int attempt) {
    const bool carried = shared->network.Carry(
        process->node(), server, [self = shared_from_this(), attempt] { self->Arrive(attempt); });
    if (!carried) Break(attempt);
  }
  // Ends the attempt with UNAVAILABLE after 1 to 400 ms, because a client does not detect a broken
  // connection at once.
  void Break(int attempt) {
    process->After(process->world().Between(milliseconds(1), milliseconds(400)),
                   [self = shared_from_this(), attempt] {
                     self->End(attempt, Unavailable("the connection was lost"), "");
                   });
  }
  // Called when the request arrives at the server. A request may arrive twice.
  void Arrive(int attempt) {
    SimServer* const to = shared->servers[static_cast<size_t>(server)]->Listener();
    SimWorld& world = process->world();
    if (to == nullptr) {
      // While the server is down, the request tries again every 20 ms, until the deadline of the
      // call.
      if (world.Now() < retries.deadline() && !process->dead()) {
        world.After(milliseconds(20),
                    [self = shared_from_this(), attempt] { self->Arrive(attempt); });
      }
      return;
    }
    world.Note(rpc::NameOf(call),
               static_cast<uint64_t>(process->node()) << 32 | static_cast<uint64_t>(server),
               Crc32c(0, request.data(), request.size()));
    to->OnDeath([weak = weak_from_this(), attempt] {
      if (const auto self = weak.lock()) self->Break(attempt);
    });
    to->Handle(call, request,
               [self = shared_from_this(), attempt](const Status& status, std::string answer) {
                 self->Answer(attempt, status, std::move(answer));
               });
  }
  // Sends the server's reply to the caller through the network.
  void Answer(int attempt, const Status& status, std::string answer) {
    const auto back = [self = shared_from_this(), attempt, status, answer = std::move(answer)] {
      self->process->Post([self, attempt, status, answer] { self->End(attempt, status, answer); });
    };
    if (!shared->network.Carry(server, process->node(), back)) Break(attempt);
  }
  void End(int attempt, const Status& status, const std::string& answer) {
    if (done || attempt != retries.attempts() || ended_attempt == attempt) return;
    ended_attempt = attempt;
    if (!status.ok()) {
      if (const auto pause = retries.Pause(status.code(), process->world().Now())) {
        return process->After(*pause, [self = shared_from_this()] { self->Attempt(); });
      }
    }
    Finish(status, answer);
  }
  void Finish(const Status& status, const std::string& answer) {
    if (std::exchange(done, true)) return;
    const auto keep = shared_from_this();
    shared->open.erase(id);
    process->world().Note(status.ok() ? "answer" : "no answer",
                          static_cast<uint64_t>(process->node()),
                          Crc32c(0, answer.data(), answer.size()));
    const std::span<const std::byte> piece = std::as_bytes(std::span(answer));
    std::exchange(take, nullptr)(status, codec::Fragments(&piece, 1));
  }

  OneCall(std::shared_ptr<SimProcess> p, std::shared_ptr<Shared> s, int to, rpc::PserverCall c,
          std::string bytes, Time deadline, Take t)
      : process(std::move(p)),
        shared(std::move(s)),
        server(to),
        call(c),
        request(std::move(bytes)),
        id(++shared->made),
        retries(shared->retries, deadline,
                StreamKey(static_cast<uint64_t>(process->node()), "retries") + id),
        take(std::move(t)) {}
  const std::shared_ptr<SimProcess> process;
  const std::shared_ptr<Shared> shared;
  const int server;
  const rpc::PserverCall call;
  const std::string request;
  const uint64_t id;
  ps::CallRetries retries;
  Take take;
  int ended_attempt = 0;
  bool done = false;
};

SimCarrier::SimCarrier(std::shared_ptr<SimProcess> process, SimNetwork& network,
                       std::vector<SimAddress*> servers, int retries)
    : process_(std::move(process)),
      shared_(std::make_shared<Shared>(Shared{network, std::move(servers), retries, {}, {}})) {}

void SimCarrier::Call(int server, rpc::PserverCall call, codec::EncodedMessage request,
                      Time deadline, Take take) {
  if (process_->dead()) return take(Cancelled("the process is dead"), {});
  if (shared_->closing) return take(Cancelled("the client is shutting down"), {});
  const auto made = std::make_shared<OneCall>(process_, shared_, server, call, Flat(request),
                                              deadline, std::move(take));
  shared_->open[made->id] = made;
  process_->After(deadline - Now(),
                  [made] { made->Finish(DeadlineExceeded("no answer in time"), ""); });
  made->Attempt();
}

void SimCarrier::After(Duration pause, std::function<void()> then) {
  if (process_->dead() || shared_->closing) return then();
  const uint64_t id = ++shared_->made;
  shared_->pauses[id] = std::move(then);
  process_->After(pause, [shared = shared_, id] {
    const auto over = shared->pauses.extract(id);
    if (!over.empty()) over.mapped()();
  });
}

Status SimCarrier::AddServer(int server, const std::string& address) {
  if (static_cast<size_t>(server) < shared_->servers.size()) return OkStatus();
  return InvalidArgument("%s is no server of this carrier", address);
}

void SimCarrier::Abandon(int server) {
  std::vector<std::shared_ptr<OneCall>> calls;
  for (const auto& [id, call] : shared_->open) {
    if (call->server == server && rpc::RowOf(call->call).carries_values) {
      calls.push_back(call);
    }
  }
  for (const auto& call : calls) call->Finish(Cancelled("the server is needed no more"), "");
}

void SimCarrier::Close() {
  shared_->closing = true;
  while (!shared_->pauses.empty()) shared_->pauses.extract(shared_->pauses.begin()).mapped()();
  while (!shared_->open.empty()) {
    const auto call = shared_->open.begin()->second;
    call->Finish(Cancelled("the client is shutting down"), "");
  }
}

}  // namespace tandem::pserver
