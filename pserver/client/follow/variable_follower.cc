#include "pserver/client/follow/variable_follower.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/pserver_call.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_ps_channel.h"

namespace tandem::ps {
namespace {

// Pause before a failed request is repeated, and before a server without parts is asked again.
constexpr Duration kErrorPause = std::chrono::milliseconds(100);
constexpr Duration kIdlePause = std::chrono::seconds(1);
// Time for which a server may hold a request until it has a new version.
constexpr Duration kHold = std::chrono::seconds(2);
// Time after the hold up to which a server replies that it has no new version.
constexpr Duration kGrace = std::chrono::seconds(2);

}  // namespace

struct VariableFollower::Part {
  std::string variable;
  int64_t offset = 0;
  std::vector<float> values;
};

struct VariableFollower::Reply {
  size_t server = 0;
  Status status;
  uint64_t version = 0, incarnation = 0;
  std::vector<Part> parts;
};

struct VariableFollower::Server {
  enum class Request : uint8_t {
    kAll,    // all slices, at once
    kNew,    // the wanted slices, at a new version
    kProbe,  // the version alone
  };
  struct Range {
    std::string variable;
    int64_t offset = 0, numel = 0;
  };

  std::string name;
  bool known = false;         // `ranges` has the wanted slices of the server
  std::vector<Range> ranges;  // empty and known: the server has no part of the variables
  uint64_t version = 0;       // version of its values; valid if known
  uint64_t incarnation = 0;   // incarnation of the server that sent them; valid if known
  bool requested = false;
  // Slices have moved since the request under way, which may not ask for all slices of the server.
  bool forgotten = false;
  bool probes = false;  // the next request asks for the version alone
  Request last = Request::kAll;
  Time sent, next_request;
  std::optional<Time> failing_since;
  Time failed;   // time of the first error since then; valid if failing_since has a value
  Status error;  // the newest error since then; valid if failing_since has a value
};

StatusOr<std::unique_ptr<VariableFollower>> VariableFollower::Connect(
    const std::vector<std::string>& servers, const ReaderOptions& options,
    VariableFollowOptions follow) {
  if (servers.empty()) return InvalidArgument("a follower needs at least one server [TD1007]");
  if (follow.every == 0) {
    return InvalidArgument(
        "a follower of variables gets a change every 0 updates, expected 1 or "
        "more [TD1004]");
  }
  PsOptions of_channel = ChannelOptions(options);
  of_channel.patience.retries = 0;  // Next repeats failed requests
  TD_ASSIGN_OR_RETURN(auto channel, GrpcPsChannel::Connect(servers, of_channel));
  return std::unique_ptr<VariableFollower>(
      new VariableFollower(servers, options, std::move(follow), std::move(channel)));
}

VariableFollower::VariableFollower(const std::vector<std::string>& servers, ReaderOptions options,
                                   VariableFollowOptions follow, std::unique_ptr<PsChannel> channel)
    : options_(std::move(options)),
      follow_(std::move(follow)),
      channel_(std::move(channel)),
      inbox_(std::make_shared<ReplyInbox<Reply>>()),
      finder_(*channel_, options_, servers) {
  for (const std::string& address : servers) AppendServer(servers_, address);
}

VariableFollower::~VariableFollower() { channel_->Close(); }

StatusOr<std::optional<VariableChange>> VariableFollower::Next(Duration timeout) {
  const Time until = channel_->Now() + timeout;
  while (true) {
    if (options_.stop && options_.stop()) return Cancelled("the follower stopped on request");
    SendRequests();
    inbox_->Await(*channel_, std::min(until, NextRequest()));
    TD_ASSIGN_OR_RETURN(std::optional<VariableChange> change, TakeReply());
    if (change) return change;
    TD_RETURN_IF_ERROR(CheckPatience());
    if (channel_->Now() >= until) return std::nullopt;
  }
}

bool VariableFollower::IsWanted(const std::string& variable) const {
  return follow_.variables.empty() ||
         std::ranges::find(follow_.variables, variable) != follow_.variables.end();
}

// ---- Requests

void VariableFollower::SendRequests() {
  const Time now = channel_->Now();
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!servers_[s]->requested && servers_[s]->next_request <= now) SendRequest(s);
  }
}

void VariableFollower::SendRequest(size_t server) {
  using Request = Server::Request;
  Server& to = *servers_[server];
  TD_REQUIRE(!to.requested);
  to.last = !to.known || to.ranges.empty() ? Request::kAll
            : to.probes                    ? Request::kProbe
                                           : Request::kNew;
  PullRequest request;
  request.set_job(options_.job);
  request.set_observer(true);
  // The reply to a held request may take as long as that to any other request, because it has all
  // values.
  Duration wait = options_.timeout, limit = options_.timeout + kGrace;
  if (to.last == Request::kNew) {
    request.set_min_version(to.version + follow_.every);
    wait = kHold;
    limit += kHold;
  }
  // Without ranges, the reply has all slices, also those that have moved to the server.
  const bool named = to.last == Request::kProbe || !follow_.variables.empty();
  for (size_t i = 0; named && to.last != Request::kAll && i < to.ranges.size(); ++i) {
    SliceRange* const range = request.add_range();
    range->set_variable(to.ranges[i].variable);
    range->set_offset(static_cast<int64_t>(to.ranges[i].offset));
    const bool probe = to.last == Request::kProbe;
    range->set_numel(probe ? 1 : static_cast<int64_t>(to.ranges[i].numel));
    if (probe) break;
  }
  request.set_timeout_ms(static_cast<uint64_t>(std::max<int64_t>(1, Millis(wait))));
  to.requested = true;
  to.forgotten = false;
  to.sent = channel_->Now();
  channel_->Call(static_cast<int>(server), rpc::PserverCall::kPull, rpc::EncodedProto(request),
                 channel_->Now() + limit,
                 [inbox = inbox_, server](const Status& status, codec::Fragments bytes) {
                   Reply reply{.server = server, .status = status, .parts = {}};
                   if (status.ok()) reply.status = Decode(bytes, reply);
                   inbox->Add(std::move(reply));
                 });
}

Status VariableFollower::Decode(codec::Fragments bytes, Reply& reply) {
  TD_ASSIGN_OR_RETURN(const codec::CodedPullReply coded, codec::DecodePullReply(bytes));
  reply.version = coded.version;
  reply.incarnation = coded.server_incarnation;
  for (const codec::CodedSlice& slice : coded.slices) {
    if (slice.desc.dtype != DType::kF32) {
      return DataLoss("variable %s has another type than f32", slice.variable);
    }
    Part part{slice.variable, slice.offset, {}};
    part.values.resize(static_cast<size_t>(slice.desc.shape.numel()));
    TD_RETURN_IF_ERROR(codec::CopyContent(bytes, slice, part.values.data()));
    reply.parts.push_back(std::move(part));
  }
  return OkStatus();
}

Time VariableFollower::NextRequest() const {
  Time next = Time::max();
  for (const auto& server : servers_) {
    if (!server->requested) next = std::min(next, server->next_request);
  }
  return next;
}

// ---- Replies

StatusOr<std::optional<VariableChange>> VariableFollower::TakeReply() {
  using Request = Server::Request;
  std::optional<Reply> taken = inbox_->Take();
  if (!taken) return std::nullopt;
  Reply& reply = *taken;
  Server& server = *servers_[reply.server];
  server.requested = false;
  if (!reply.status.ok()) {
    TD_RETURN_IF_ERROR(TakeError(server, reply.status));
    return std::nullopt;
  }
  server.failing_since.reset();
  const Time now = channel_->Now();
  if (server.last == Request::kProbe) {
    server.probes = false;
    // After a restore, which changes the incarnation, or after a restart, the follower needs all
    // values, even if the server has reached the same version again.
    server.known = !server.forgotten && reply.version >= server.version &&
                   reply.incarnation == server.incarnation;
    server.next_request = now;
    return std::nullopt;
  }
  server.version = reply.version;
  server.incarnation = reply.incarnation;
  server.known = !server.forgotten;
  VariableChange change{.versions = {}, .changed = Store(server, std::move(reply.parts))};
  server.next_request = now + (server.ranges.empty() ? kIdlePause : follow_.interval);
  // The first change has all variables.
  if (!complete_) {
    if (Incomplete()) return std::nullopt;
    complete_ = true;
    change.changed.clear();
    for (const auto& [name, values] : values_) change.changed.push_back(name);
  }
  if (change.changed.empty()) return std::nullopt;
  for (const auto& s : servers_) change.versions.push_back(s->ranges.empty() ? 0 : s->version);
  return change;
}

std::vector<std::string> VariableFollower::Store(Server& server, std::vector<Part> parts) {
  std::set<std::string> names;
  server.ranges.clear();
  for (Part& part : parts) {
    if (!IsWanted(part.variable)) continue;
    const auto numel = static_cast<int64_t>(part.values.size());
    server.ranges.push_back({part.variable, part.offset, numel});
    std::vector<float>& values = values_[part.variable];
    const auto end = static_cast<size_t>(part.offset) + part.values.size();
    if (values.size() < end) values.resize(end);
    std::ranges::copy(part.values, values.begin() + part.offset);
    names.insert(part.variable);
  }
  return {names.begin(), names.end()};
}

std::optional<std::string> VariableFollower::Incomplete() const {
  std::map<std::string, std::map<int64_t, int64_t>> parts;  // numbers of elements by offset
  for (const auto& server : servers_) {
    if (!server->known) return server->name;
    for (const Server::Range& r : server->ranges) parts[r.variable][r.offset] = r.numel;
  }
  for (const std::string& name : follow_.variables) {
    if (!parts.contains(name)) return name;
  }
  for (const auto& [name, of_variable] : parts) {
    int64_t end = 0;
    for (const auto& [offset, numel] : of_variable) {
      if (offset != end) return name;
      end += numel;
    }
  }
  return std::nullopt;
}

std::optional<std::string> VariableFollower::LackedWithout(const Server* without) const {
  TD_REQUIRE(complete_);
  std::map<std::string, std::map<int64_t, int64_t>> parts;  // numbers of elements by offset
  for (const auto& server : servers_) {
    if (server.get() == without || !server->known) continue;
    for (const Server::Range& r : server->ranges) parts[r.variable][r.offset] = r.numel;
  }
  for (const auto& [name, values] : values_) {
    int64_t end = 0;
    for (const auto& [offset, numel] : parts[name]) {
      if (offset != end) break;
      end += numel;
    }
    if (end != std::ssize(values)) return name;
  }
  return std::nullopt;
}

void VariableFollower::Forget() {
  for (const auto& server : servers_) {
    server->known = false;
    server->forgotten = server->requested;
  }
}

Status VariableFollower::TakeError(Server& server, const Status& error) {
  const Time now = channel_->Now();
  const bool held = server.last == Server::Request::kNew &&
                    error.code() == StatusCode::kDeadlineExceeded &&
                    now - server.sent < kHold + kGrace;
  if (held) {
    // The server has no new version, or has restored a checkpoint: the next request finds out.
    server.probes = true;
    server.next_request = now;
    return OkStatus();
  }
  server.error = Annotate(error, server.name);
  server.next_request = now + kErrorPause;
  if (!server.failing_since) {
    server.failing_since = server.sent;
    server.failed = now;
    // The server may have been drained: other servers may have its slices now.
    Forget();
  }
  switch (error.code()) {
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kUnimplemented:
      return server.error;
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
      return OkStatus();
    default:
      // A slice has moved to another server.
      Forget();
      return OkStatus();
  }
}

Status VariableFollower::CheckPatience() {
  const Time now = channel_->Now();
  for (const auto& server : servers_) {
    if (!server->failing_since || now - *server->failing_since < options_.timeout) continue;
    // After Forget, the other servers need time to say which slices they have.
    const bool replied = std::ranges::all_of(
        servers_, [&](const auto& other) { return other->known || other->failing_since; });
    if (!replied && now - server->failed < options_.timeout) continue;
    server->failing_since = now;  // for the next call of Next
    if (!complete_ || LackedWithout(server.get())) return server->error;
    server->ranges.clear();
    server->next_request = now + kIdlePause;
  }
  // A drained server does not reply, and has no slices.
  const bool replied = std::ranges::all_of(servers_, [&](const auto& s) {
    return s->known || (complete_ && s->failing_since && s->ranges.empty());
  });
  if (!replied) return OkStatus();
  const std::optional<std::string> lacks = complete_ ? LackedWithout(nullptr) : Incomplete();
  if (!lacks) {
    incomplete_since_.reset();
    return OkStatus();
  }
  return FindServers(*lacks);
}

Status VariableFollower::FindServers(const std::string& variable) {
  const Time now = channel_->Now();
  finder_.Ask();
  for (const std::string& address : finder_.Take()) AppendServer(servers_, address);
  if (now >= next_search_) {
    Forget();
    next_search_ = now + (complete_ ? kIdlePause : kErrorPause);
  }
  if (!incomplete_since_) incomplete_since_ = now;
  if (now - *incomplete_since_ < options_.timeout) return OkStatus();
  incomplete_since_ = now;
  return NotFound(
      "the named servers have no dense variable \"%s\", or lack a part of it [TD4034]; hint: name "
      "all pservers of the job, or one replica of each; tandem vars lists the variables",
      variable);
}

}  // namespace tandem::ps
