#include "pserver/client/follow/table_follower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/codec/tensor_codec.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/pserver_call.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_ps_channel.h"

namespace tandem::ps {
namespace {

using Range = FollowedBuckets::Range;

// Pause before a failed request is repeated.
constexpr Duration kRetryPause = std::chrono::milliseconds(100);
// Time after which the follower looks for other servers. A move ends sooner.
constexpr Duration kFindAfter = std::chrono::seconds(1);

// Returns whether an error of a server that has never replied otherwise is final: the caller's
// arguments, or the settings of the server, are wrong.
bool IsFinal(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

template <typename Served>
StatusOr<std::vector<Range>> RangesOf(const Served& served) {
  std::vector<Range> ranges;
  uint32_t end = 0;
  for (const ServedBuckets& s : served) {
    if (s.begin() < end || s.end() <= s.begin() || s.end() > kRowBuckets) {
      return DataLoss("row buckets [%d, %d) are not possible", s.begin(), s.end());
    }
    end = s.end();
    ranges.push_back({static_cast<int>(s.begin()), static_cast<int>(s.end()), s.epoch()});
  }
  return ranges;
}

std::string NameOf(int format) {
  constexpr const char* kNames[] = {"f32", "bf16", "int8"};
  return format >= 0 && format < 3 ? kNames[format] : absl::StrFormat("format %d", format);
}

void AddHeld(const std::vector<Range>& ranges, ChangeToken::Server* server) {
  for (const Range& range : ranges) {
    ServedBuckets* const held = server->add_held();
    held->set_begin(static_cast<uint32_t>(range.begin));
    held->set_end(static_cast<uint32_t>(range.end));
    held->set_epoch(range.epoch);
  }
}

// Returns the token of a follower; an empty one if it has none.
StatusOr<ChangeToken> ParseToken(const std::string& job, const FollowOptions& follow,
                                 size_t servers) {
  if (servers == 0) return InvalidArgument("a follower needs at least one server [TD1007]");
  ChangeToken token;
  if (follow.token.empty()) return token;
  if (!token.ParseFromString(follow.token)) {
    return InvalidArgument(
        "the position is damaged [TD4037]; hint: begin again without a position");
  }
  if (token.job() != job || token.table() != follow.table) {
    return InvalidArgument(
        "the position is one of table %s of job %s, expected table %s of job %s [TD4037]",
        token.table(), token.job(), follow.table, job);
  }
  const std::optional<float> score_min =
      token.has_min_score() ? std::optional(token.min_score()) : std::nullopt;
  if (score_min != follow.score_min) {
    return InvalidArgument(
        "the position is one of rows with another minimum score [TD4037]; hint: use the same "
        "minimum score as before, or begin again without a position");
  }
  if (token.has_format() && token.format() != static_cast<ValueFormat>(follow.format)) {
    return InvalidArgument(
        "the position is one of rows whose values travelled as %s, expected %s [TD4037]; hint: use "
        "the same format of values as before, or begin again without a position",
        NameOf(token.format()), NameOf(static_cast<int>(follow.format)));
  }
  for (const ChangeToken::Server& server : token.server()) {
    TD_RETURN_IF_ERROR(Annotate(RangesOf(server.held()).status(), "the position [TD4037]"));
  }
  return token;
}

Status CheckFilters(const FollowOptions& follow) {
  if (follow.bucket_begin < 0 || follow.bucket_begin >= follow.bucket_end ||
      follow.bucket_end > kRowBuckets) {
    return InvalidArgument(
        "row buckets [%d, %d) are not possible, expected a part of [0, %d) "
        "[TD1004]",
        follow.bucket_begin, follow.bucket_end, kRowBuckets);
  }
  if (!follow.score_min || !std::isnan(*follow.score_min)) return OkStatus();
  return InvalidArgument("the minimum score is NaN, expected a number [TD1004]");
}

// Checks a reply and decodes its values.
Status CheckReply(const FetchChangesReply& reply, std::vector<float>& decoded) {
  const auto rows = static_cast<size_t>(reply.id_size());
  const bool buckets = std::ranges::all_of(
      reply.bucket(), [](uint32_t b) { return b < static_cast<uint32_t>(kRowBuckets); });
  if (!ValueFormat_IsValid(reply.format()) || !buckets) {
    return DataLoss("a reply with %d changed rows of %d weights is wrong", rows, reply.dim());
  }
  const std::vector<float> scales(reply.scale().begin(), reply.scale().end());
  TD_ASSIGN_OR_RETURN(decoded, codec::DecodeRows(static_cast<codec::RowFormat>(reply.format()),
                                                 reply.values(), scales, rows, reply.dim()));
  return RangesOf(reply.served()).status();
}

}  // namespace

struct TableFollower::Reply {
  size_t server = 0;
  Status status;
  FetchChangesReply body;
};

struct TableFollower::Server {
  std::string name;        // in messages
  bool learned = false;    // the server joined the job later, and may have left
  bool requested = false;  // a request is under way
  Time sent;               // time of the newest request
  Time next_request = Time::min();
  // Position of the follower; nullopt: the server has not replied yet.
  std::optional<ChangePosition> position;
  std::vector<ServedBuckets> served;  // buckets in the newest reply
  // true: the newest reply had all changes of the server.
  bool current = false;
  std::optional<Time> failing_since;  // time of the first failed request after the newest reply
  Status error;                       // the newest error since then
};

StatusOr<std::unique_ptr<TableFollower>> TableFollower::Connect(
    const std::vector<std::string>& servers, const ReaderOptions& options, FollowOptions follow) {
  TD_RETURN_IF_ERROR(CheckFilters(follow));
  TD_RETURN_IF_ERROR(ParseToken(options.job, follow, servers.size()).status());
  PsOptions of_channel = ChannelOptions(options);
  of_channel.patience.retries = 0;  // Next repeats failed requests
  TD_ASSIGN_OR_RETURN(auto channel, GrpcPsChannel::Connect(servers, of_channel));
  return Over(std::move(channel), servers, options, std::move(follow));
}

StatusOr<std::unique_ptr<TableFollower>> TableFollower::Over(
    std::unique_ptr<PsChannel> channel, const std::vector<std::string>& servers,
    const ReaderOptions& options, FollowOptions follow) {
  TD_ASSIGN_OR_RETURN(ChangeToken token, ParseToken(options.job, follow, servers.size()));
  const bool continues = !follow.token.empty();
  std::unique_ptr<TableFollower> follower(
      new TableFollower(servers, options, std::move(follow), std::move(channel)));
  if (continues) follower->sent_.set();
  *follower->token_ = std::move(token);
  return follower;
}

TableFollower::TableFollower(const std::vector<std::string>& servers, ReaderOptions options,
                             FollowOptions follow, std::unique_ptr<PsChannel> channel)
    : options_(std::move(options)),
      follow_(std::move(follow)),
      channel_(std::move(channel)),
      inbox_(std::make_shared<ReplyInbox<Reply>>()),
      token_(std::make_unique<ChangeToken>()),
      buckets_(servers.size(), follow_.bucket_begin, follow_.bucket_end),
      finder_(*channel_, options_, servers) {
  for (const std::string& address : servers) AppendServer(servers_, address);
}

TableFollower::~TableFollower() { channel_->Close(); }

StatusOr<std::optional<TableChange>> TableFollower::Next(Duration timeout) {
  const Time until = channel_->Now() + timeout;
  while (true) {
    if (options_.stop && options_.stop()) return Cancelled("the follower stopped on request");
    SendRequests();
    inbox_->Await(*channel_, std::min(until, NextRequest()));
    TD_ASSIGN_OR_RETURN(std::optional<TableChange> change, TakeReply());
    if (change) return change;
    TD_RETURN_IF_ERROR(CheckPatience());
    if (channel_->Now() >= until) return std::nullopt;
  }
}

std::string TableFollower::token() const {
  ChangeToken token;
  token.set_job(options_.job);
  token.set_table(follow_.table);
  if (follow_.score_min) token.set_min_score(*follow_.score_min);
  token.set_format(static_cast<ValueFormat>(follow_.format));
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!servers_[s]->position) continue;
    ChangeToken::Server* const server = token.add_server();
    *server->mutable_position() = *servers_[s]->position;
    AddHeld(buckets_.Held(s), server);
  }
  // Positions of servers that have not replied yet.
  for (const ChangeToken::Server& server : token_->server()) {
    ChangeToken::Server* const left = token.add_server();
    *left->mutable_position() = server.position();
    AddHeld(buckets_.NotHeld(*RangesOf(server.held())), left);
  }
  return token.SerializeAsString();
}

// ---- Requests

void TableFollower::SendRequests() {
  const Time now = channel_->Now();
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!servers_[s]->requested && servers_[s]->next_request <= now) SendRequest(s);
  }
}

void TableFollower::SendRequest(size_t server) {
  Server& to = *servers_[server];
  TD_REQUIRE(!to.requested);
  FetchChangesRequest request;
  request.set_job(options_.job);
  request.set_table(follow_.table);
  request.set_bytes_max(follow_.bytes_max);
  request.set_format(static_cast<ValueFormat>(follow_.format));
  request.set_bucket_begin(static_cast<uint32_t>(follow_.bucket_begin));
  request.set_bucket_end(static_cast<uint32_t>(follow_.bucket_end));
  if (follow_.score_min) request.set_min_score(*follow_.score_min);
  if (to.position) {
    *request.mutable_position() = *to.position;
    for (const int bucket : buckets_.Wanted(server)) {
      request.add_bucket(static_cast<uint32_t>(bucket));
    }
  }
  // Without the last reply's changes the caller does not know that the follower is current.
  if (to.current) {
    const Duration wait = std::min<Duration>(follow_.wait, options_.timeout / 2);
    request.set_wait_ms(static_cast<uint32_t>(std::max<int64_t>(0, Millis(wait))));
    request.mutable_known()->Add(to.served.begin(), to.served.end());
  }
  to.requested = true;
  to.sent = channel_->Now();
  channel_->Call(static_cast<int>(server), rpc::PserverCall::kFetchChanges,
                 rpc::EncodedProto(request), channel_->Now() + options_.timeout,
                 [inbox = inbox_, server](const Status& status, codec::Fragments bytes) {
                   Reply reply{.server = server, .status = status, .body = {}};
                   if (status.ok()) reply.status = rpc::ParseMessage(bytes, &reply.body);
                   inbox->Add(std::move(reply));
                 });
}

void TableFollower::LearnServers() {
  for (const std::string& address : finder_.Take()) {
    AppendServer(servers_, address).learned = true;
    buckets_.AddServer();
  }
}

Time TableFollower::NextRequest() const {
  Time next = Time::max();
  for (const auto& server : servers_) {
    if (!server->requested) next = std::min(next, server->next_request);
  }
  return next;
}

// ---- Replies

StatusOr<std::optional<TableChange>> TableFollower::TakeReply() {
  std::optional<Reply> taken = inbox_->Take();
  if (!taken) return std::nullopt;
  Reply& reply = *taken;
  Server& server = *servers_[reply.server];
  server.requested = false;
  std::vector<float> values;
  if (reply.status.ok()) reply.status = CheckReply(reply.body, values);
  if (!reply.status.ok()) {
    TD_RETURN_IF_ERROR(TakeError(server, reply.status));
    return std::nullopt;
  }
  server.failing_since.reset();
  TD_ASSIGN_OR_RETURN(TableChange change, Accept(reply.server, reply.body, values));
  change.current = IsCurrent();
  const bool news = change.current != was_current_;
  was_current_ = change.current;
  if (change.replaced.empty() && change.ids.empty() && change.removed.empty() &&
      !(news && change.current)) {
    return std::nullopt;
  }
  return change;
}

Status TableFollower::TakeError(Server& server, const Status& error) {
  const Time now = channel_->Now();
  server.error = Annotate(error, server.name);
  server.next_request = now + kRetryPause;
  if (!server.position && IsFinal(error.code())) return server.error;
  if (!server.failing_since) server.failing_since = server.sent;
  return OkStatus();
}

void TableFollower::Begin(size_t server, const FetchChangesReply& reply) {
  Server& from = *servers_[server];
  from.position = reply.position();
  buckets_.SetHeld(server, {});
  const auto positions = token_->mutable_server();
  for (auto it = positions->begin(); it != positions->end(); ++it) {
    if (it->position().history() != reply.position().history()) continue;
    from.position = it->position();
    buckets_.SetHeld(server, *RangesOf(it->held()));
    positions->erase(it);
    break;
  }
  // No server has the other positions if all servers have replied.
  if (!buckets_.LacksOwner() &&
      std::ranges::all_of(servers_, [](const auto& s) { return s->position.has_value(); })) {
    positions->Clear();
  }
}

StatusOr<TableChange> TableFollower::Accept(size_t server, const FetchChangesReply& reply,
                                            const std::vector<float>& values) {
  Server& from = *servers_[server];
  TableChange change{.server = server,
                     .version = reply.version(),
                     .replaced = {},
                     .dim = reply.dim(),
                     .ids = {},
                     .values = {},
                     .removed = {}};
  TD_ASSIGN_OR_RETURN(const std::vector<Range> claims, RangesOf(reply.served()));
  buckets_.SetClaims(server, claims);
  const bool first = !from.position.has_value();
  if (first) {
    Begin(server, reply);
  } else {
    from.position = reply.position();
    if (reply.restart()) buckets_.SetHeld(server, {});
  }
  change.first = true;
  for (const uint32_t bucket : reply.bucket()) {
    if (!buckets_.Hold(server, static_cast<int>(bucket))) continue;
    change.replaced.push_back(static_cast<int>(bucket));
    change.first = change.first && !sent_[bucket];
    sent_.set(bucket);
  }
  const auto accepts = [&](uint64_t id) { return buckets_.Holds(server, RowBucket(id)); };
  const auto dim = static_cast<ptrdiff_t>(reply.dim());
  change.ids.reserve(static_cast<size_t>(reply.id_size()));
  change.values.reserve(static_cast<size_t>(reply.id_size()) * reply.dim());
  for (int i = 0; i < reply.id_size(); ++i) {
    if (!accepts(reply.id(i))) continue;
    change.ids.push_back(reply.id(i));
    const auto row = values.begin() + i * dim;
    change.values.insert(change.values.end(), row, row + dim);
  }
  for (const uint64_t id : reply.removed()) {
    if (accepts(id)) change.removed.push_back(id);
  }
  from.served.assign(reply.served().begin(), reply.served().end());
  from.current = !first && !reply.restart() && reply.position().version() >= reply.version();
  // A reply that brought rows may have left others out.
  const bool more = first || reply.restart() || !from.current || reply.bucket_size() != 0;
  // A server that held the request for longer than the interval is asked at once.
  const Time now = channel_->Now();
  from.next_request = more ? now : std::max(now, from.sent + follow_.interval);
  return change;
}

// ---- State

bool TableFollower::IsCurrent() const {
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!servers_[s]->current && buckets_.IsNeeded(s)) return false;
  }
  return buckets_.Complete();
}

Status TableFollower::CheckPatience() {
  const Time now = channel_->Now();
  for (size_t s = 0; s < servers_.size(); ++s) {
    Server& server = *servers_[s];
    const bool needed = (!server.position && !server.learned) || buckets_.IsNeeded(s);
    if (!needed || !server.failing_since || now - *server.failing_since < options_.timeout) {
      continue;
    }
    server.failing_since = now;  // for the next call of Next
    return server.error;
  }
  const bool replied = std::ranges::all_of(
      servers_, [](const auto& s) { return s->position.has_value() || s->learned; });
  const bool lacks = replied && buckets_.LacksOwner();
  if (!lacks) {
    unowned_since_.reset();
    return OkStatus();
  }
  if (!unowned_since_) unowned_since_ = now;
  if (now - *unowned_since_ >= kFindAfter) finder_.Ask();
  LearnServers();
  if (now - *unowned_since_ < options_.timeout) return OkStatus();
  unowned_since_ = now;
  return OutOfRange(
      "none of the named servers serves some of the rows of table %s: a server of the job is not "
      "named [TD4035]; hint: name all pservers of the job, or one replica of each",
      follow_.table);
}

}  // namespace tandem::ps
