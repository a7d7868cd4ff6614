// The part of PsClient that follows row buckets and slices that move between servers. It keeps the
// map of moves and redirects pulls that reached a former owner.
#include <algorithm>
#include <set>
#include <utility>

#include "common/codec/bucket_map_proto.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/client_impl.h"

namespace tandem::ps {
namespace {

constexpr Duration kExchangeTimeout = std::chrono::seconds(1);
constexpr Duration kReportPause = std::chrono::seconds(1);
constexpr size_t kNoServer = SIZE_MAX;

// Calls `then` when all calls have arrived.
class Countdown {
 public:
  Countdown(size_t calls, std::function<void()> then) : left_(calls), then_(std::move(then)) {}
  void Arrive() {
    if (left_.fetch_sub(1) == 1) then_();
  }

 private:
  std::atomic<size_t> left_;
  const std::function<void()> then_;
};

}  // namespace

// ---- Known moves --------------------------------------------------------------------------------

std::shared_ptr<const PsPlacement> PsClient::Impl::Placement() const {
  MutexLock lock(mu);
  return placement;
}

PsClient::Impl::Server& PsClient::Impl::ServerAt(size_t index) {
  if (index < servers.size()) return *servers[index];
  MutexLock lock(mu);
  return *added.at(index);
}

std::vector<PsClient::Impl::Server*> PsClient::Impl::AllServers() {
  std::vector<Server*> all;
  for (auto& server : servers) all.push_back(server.get());
  MutexLock lock(mu);
  for (auto& [index, server] : added) all.push_back(server.get());
  return all;
}

bool PsClient::Impl::Meet(size_t index, const BucketMap& map) {
  if (index < servers.size() || added.contains(index)) return true;
  const auto address = map.addresses().find(static_cast<int>(index));
  if (address == map.addresses().end()) return false;
  const Status status = carrier->AddServer(static_cast<int>(index), address->second);
  if (!status.ok()) {
    LOG(ERROR) << "pserver " << index << ": " << ToString(status);
    return false;
  }
  auto server = std::make_unique<Server>();
  server->index = static_cast<int>(index);
  server->address = address->second;
  server->name = PserverName(server->index, server->address);
  added[index] = std::move(server);
  return true;
}

void PsClient::Impl::Learn(size_t server, const BucketMapDef& def, uint64_t generation) {
  const BucketMap told = FromProto(def);
  std::set<size_t> changed;  // servers with other rows than before
  {
    MutexLock lock(mu);
    auto next = std::make_shared<PsPlacement>(*placement);
    if (server >= next->generations.size()) next->generations.resize(server + 1);
    next->generations[server] = std::max(next->generations[server], generation);
    for (const auto& [index, address] : told.addresses()) next->map.SetAddress(index, address);
    for (const BucketMove& move : told.moves()) {
      const auto owner = static_cast<size_t>(move.server);
      if (!Meet(owner, told) || !next->map.Learn(move)) continue;
      if (size_t* const now = next->Owner(move.bucket); now != nullptr) {
        changed.insert({*now, owner});
        *now = owner;
      }
      if (owner >= next->generations.size()) next->generations.resize(owner + 1);
    }
    placement = std::move(next);
  }
  for (const size_t s : changed) {
    if (cache) cache->Forget(s);
  }
}

void PsClient::Impl::Exchange(const std::set<size_t>& with, std::function<void()> then) {
  if (with.empty()) return then();
  ExchangeMapRequest request;
  FillCaller(&request);
  ToProto(Placement()->map, request.mutable_known());
  request.set_min_step(told);
  const auto all = std::make_shared<Countdown>(with.size(), std::move(then));
  for (const size_t index : with) {
    carrier->Call(static_cast<int>(index), "ExchangeMap", rpc::EncodedProto(request),
                  carrier->Now() + kExchangeTimeout,
                  [this, index, all](const Status& status, codec::Fragments answer) {
                    ExchangeMapReply reply;
                    // A server that does not reply is called again with the next attempt.
                    if (status.ok() && rpc::ParseMessage(answer, &reply).ok()) {
                      Learn(index, reply.map(), reply.generation());
                    }
                    if (status.code() == StatusCode::kDataLoss && kept != nullptr) SendAgain(index);
                    Answered(index, status);
                    all->Arrive();
                  });
  }
}

void PsClient::Impl::ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then) {
  if (rounds == 0) return then();
  std::set<size_t> all = also;
  for (const Server* s : AllServers()) {
    if (owns_any(*s)) all.insert(static_cast<size_t>(s->index));
  }
  Exchange(all, [this, also = std::move(also), rounds, then = std::move(then)] {
    ExchangeAll(also, rounds - 1, then);
  });
}

void PsClient::Impl::ReportLater() {
  if (closing || reporting.exchange(true)) return;
  carrier->After(kReportPause, [this] {
    BeginReport(waiting == 0);
    if (waiting > 0 && !closing) Report();
    reporting = false;
    if (waiting > 0) ReportLater();
  });
}

void PsClient::Impl::Report() {
  std::set<size_t> all;
  for (const Server* server : AllServers()) all.insert(static_cast<size_t>(server->index));
  Exchange(all, [this] {
    if (sync) return;  // a server stays until no trainer needs it
    for (const Server* server : AllServers()) {
      if (!owns_any(*server)) carrier->Abandon(server->index);
    }
  });
}

void PsClient::Impl::BeginReport(bool end) {
  for (Server* const server : AllServers()) {
    MutexLock lock(mu);
    if (end || server->asked == Time()) server->asked = end ? Time() : carrier->Now();
  }
}

void PsClient::Impl::Answered(size_t server, const Status& status) {
  Duration silent = Duration::zero();
  {
    Server& s = ServerAt(server);
    MutexLock lock(mu);
    // A stopped server does not count as unresponsive: its connections end.
    if (status.code() != StatusCode::kDeadlineExceeded) s.asked = Time();
    if (s.asked != Time()) silent = carrier->Now() - s.asked;
  }
  if (options.on_silent && silent >= options.step_timeout) {
    options.on_silent(static_cast<int>(server), silent);
  }
}

// ---- Pulls of slices ----------------------------------------------------------------------------

size_t PsClient::Impl::BlockAt(const std::string& variable, int64_t offset) const {
  const std::vector<size_t>& all = blocks_of[static_cast<size_t>(variable_index.at(variable))];
  return *std::lower_bound(all.begin(), all.end(), offset,
                           [this](size_t b, int64_t at) { return blocks[b].offset < at; });
}

std::map<size_t, std::shared_ptr<PullPart>> PsClient::Impl::RepartitionPulls(
    const std::vector<std::shared_ptr<PullPart>>& pulls, const PsPlacement& now) const {
  std::map<size_t, std::shared_ptr<PullPart>> parts;
  for (const auto& pull : pulls) {
    for (int i = 0; i < pull->request.range_size(); ++i) {
      const SliceRange& range = pull->request.range(i);
      const size_t server = now.blocks[BlockAt(range.variable(), range.offset())];
      auto& part = parts[server];
      if (part == nullptr) {
        part = std::make_shared<PullPart>(PullPart{server, pull->request, {}});
        part->request.clear_range();
        // A slice keeps its values when it moves. In a_sync mode, versions of different servers are
        // not comparable.
        if (!sync && server != pull->server) part->request.set_min_version(0);
        part->deadline = pull->deadline;
        part->attempts = pull->attempts;
      }
      *part->request.add_range() = range;
      part->to.push_back(pull->to[static_cast<size_t>(i)]);
    }
  }
  return parts;
}

void PsClient::Impl::PullElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                                   DoneVersion done) {
  const auto again = [this, part, moved, why, done = std::move(done)] {
    auto parts = RepartitionPulls({part}, *Placement());
    if (!moved && parts.contains(part->server)) return done(why);
    const auto join = std::make_shared<FanInCallback>(static_cast<int>(parts.size()), done);
    for (auto& [server, next] : parts) {
      if (!moved) next->deadline = Time();
      SendPull(next, [join](StatusOr<uint64_t> version) { join->Arrive(std::move(version)); });
    }
  };
  if (!moved) return ExchangeAll({}, 2, again);
  carrier->After(PauseOf(part->attempts++),
                 [this, again, server = part->server] { ExchangeAll({server}, 2, again); });
}

// ---- Pulls of rows ------------------------------------------------------------------------------

void PsClient::Impl::PullRowsOnce(std::shared_ptr<RowsPull> pull) {
  auto parts = RowsParts(pull->rows, pull->when);
  if (!parts.ok()) return pull->done(parts.status());
  auto moved = std::make_shared<std::atomic<bool>>(false);
  // A server that does not reply.
  const auto gone = std::make_shared<std::atomic<size_t>>(kNoServer);
  const auto join = std::make_shared<FanInCallback>(
      static_cast<int>(parts->size()), [this, pull, moved, gone](StatusOr<uint64_t> version) {
        const bool late = carrier->Now() >= pull->deadline;
        const bool known = *gone == kNoServer && (late || !*moved);  // an exchange would not help
        if (version.ok() || known) return pull->done(std::move(version));
        ExchangeAll({}, 1, [this, pull, late, gone = gone->load(), why = version.status()] {
          // The server may have given everything away and stopped.
          const bool left = gone != kNoServer && !Placement()->RowOwners().contains(gone);
          if (gone != kNoServer && !left) return pull->done(why);
          if (late) pull->deadline = carrier->Now() + call_timeout() + kGrace;
          carrier->After(PauseOf(pull->attempts++), [this, pull] { PullRowsOnce(pull); });
        });
      });
  for (auto& [index, part] : *parts) {
    Server& server = ServerAt(index);
    // The request is also sent without rows: the condition on the servers' version still applies,
    // and the reply contains the version.
    if (cache) TakeKept(index, pull->when, *part);
    Send(server, "Pull", rpc::EncodedProto(part->request), pull->deadline,
         [this, index = index, part = part, &server, join, moved, gone](const Status& status,
                                                                        codec::Fragments answer) {
           if (HasMoved(status)) *moved = true;
           if (IsGone(status)) *gone = index;
           if (!status.ok()) return join->Arrive(status);
           const StatusOr<codec::CodedPullReply> reply = TakeRows(*part, answer);
           if (!reply.ok()) return join->Arrive(Annotate(reply.status(), server.name));
           if (cache) Keep(index, *part, *reply);
           join->Arrive(reply->version);
         });
  }
}

void PsClient::PullRows(PullCondition when, std::vector<PsRows> rows, DoneVersion done) {
  const std::string what = absl::StrFormat("pull of rows of version %d", when.version);
  if (rows.empty()) return done(InvalidArgument("%s names no table, expected at least one", what));
  auto pull = std::make_shared<Impl::RowsPull>();
  pull->when = when;
  pull->rows = std::move(rows);
  pull->deadline = impl_->carrier->Now() + impl_->call_timeout() + kGrace;
  pull->done = [what, done = std::move(done)](StatusOr<uint64_t> version) {
    done(version.ok() ? std::move(version) : Annotate(version.status(), what));
  };
  impl_->PullRowsOnce(std::move(pull));
}

Status PsClient::Impl::RefreshAddedServers() {
  std::set<int> asked;
  for (bool news = true; news;) {
    news = false;
    for (const Server* const server : AllServers()) {
      if (!IsAdded(*server) || !owns_any(*server) || !asked.insert(server->index).second) continue;
      news = true;
      ExchangeMapRequest request;
      FillCaller(&request);
      ToProto(Placement()->map, request.mutable_known());
      const auto reply = std::make_shared<ExchangeMapReply>();
      TD_ASSIGN_OR_RETURN(const bool owns,
                          CallOwner(*server, "ExchangeMap", request, reply, options.start_timeout));
      if (owns) Learn(static_cast<size_t>(server->index), reply->map(), reply->generation());
    }
  }
  return OkStatus();
}

StatusOr<bool> PsClient::Impl::CallOwner(const Server& server, const char* method,
                                         const google::protobuf::MessageLite& request,
                                         std::shared_ptr<google::protobuf::MessageLite> reply,
                                         Duration timeout) {
  const Time give_up = carrier->Now() + timeout + kGrace;
  for (int attempts = 0; !HasLeft(server); ++attempts) {
    const auto call = BeginCall(server, method, request, reply, give_up);
    while (!call->ended->WaitUntil(carrier->Now() + kExchangeTimeout)) {
      if (carrier->Now() >= give_up + kGrace) {
        return DeadlineExceeded("%s did not reply to %s in time [TD4025]", server.name, method);
      }
      TD_RETURN_IF_ERROR(ExchangeAndWait(0));
      if (HasLeft(server)) return false;
    }
    if (call->status.ok()) return true;
    if (!IsGone(call->status)) return call->status;
    TD_RETURN_IF_ERROR(ExchangeAndWait(attempts));
    if (HasLeft(server)) return false;
    const bool late = call->status.code() == StatusCode::kDeadlineExceeded;
    if (!IsAdded(server) || late || carrier->Now() >= give_up) return call->status;
  }
  return false;
}

Status PsClient::Impl::ExchangeAndWait(int attempts) {
  const auto ended = std::shared_ptr<PsEvent>(carrier->MakeEvent());
  carrier->After(PauseOf(attempts),
                 [this, ended] { ExchangeAll({}, 1, [ended] { ended->Set(); }); });
  if (ended->WaitUntil(carrier->Now() + call_timeout())) return OkStatus();
  return DeadlineExceeded(
      "no server replied to the request for the map of row buckets in time [TD4025]");
}

}  // namespace tandem::ps
