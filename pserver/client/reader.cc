#include "pserver/client/reader.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/require.h"
#include "common/codec/bucket_map_proto.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/calls.h"
#include "pserver/client/carrier/grpc_ps_channel.h"

namespace tandem::ps {
namespace {

constexpr size_t kIdsMax = size_t{4} << 20;
// Pause before a read is repeated because rows have moved.
constexpr Duration kMovePause = std::chrono::milliseconds(20);

// Adds the name of a server to its error. Errors of the connection have it already.
Status Named(const Status& status, const std::string& server) {
  return status.message().find(server) == std::string::npos ? Annotate(status, server) : status;
}

Status NoOwner() {
  return OutOfRange(
      "none of the named servers serves some of the rows: a server of the job is not named, or "
      "rows move between servers [TD4035]; hint: name all pservers of the job, or one replica of "
      "each");
}

// Returns whether the servers serve some row buckets, but not all.
bool LacksSome(const std::array<int, kRowBuckets>& owners) {
  const auto lacking = std::ranges::count(owners, -1);
  return lacking != 0 && lacking != std::ssize(owners);
}

using Slices = std::map<std::string, std::map<int64_t, std::vector<float>>>;

// Joins the slices of variables, by their first elements. nullopt: one is missing.
std::optional<std::map<std::string, std::vector<float>>> Whole(const Slices& slices) {
  std::map<std::string, std::vector<float>> variables;
  for (const auto& [name, parts] : slices) {
    std::vector<float>& values = variables[name];
    for (const auto& [offset, part] : parts) {
      if (static_cast<size_t>(offset) != values.size()) return std::nullopt;
      values.insert(values.end(), part.begin(), part.end());
    }
  }
  return variables;
}

}  // namespace

// A pull from one server, and its result.
struct Reader::Call {
  int server = 0;
  PullRequest request;
  std::function<Status(codec::Fragments, const codec::CodedPullReply&)> take;
  uint64_t version = 0;
  Status status;
};

// The reply of a server to the request for its map.
struct Reader::MapAnswer {
  Status status;
  ExchangeMapReply reply;
};

StatusOr<std::unique_ptr<Reader>> Reader::Connect(const std::vector<std::string>& servers,
                                                  const ReaderOptions& options) {
  if (servers.empty()) return InvalidArgument("a reader needs at least one server [TD1007]");
  const Time deadline = SteadyNow() + options.timeout;
  TD_ASSIGN_OR_RETURN(auto channel, GrpcPsChannel::Connect(servers, ChannelOptions(options)));
  std::unique_ptr<Reader> reader(new Reader(options, servers, std::move(channel)));
  TD_RETURN_IF_ERROR(reader->FindOwners(deadline));
  return reader;
}

Reader::Reader(ReaderOptions options, const std::vector<std::string>& servers,
               std::unique_ptr<PsChannel> channel)
    : options_(std::move(options)), named_(servers.size()), channel_(std::move(channel)) {
  for (size_t s = 0; s < named_; ++s) {
    names_.push_back(PserverName(static_cast<int>(s), servers[s]));
    owners_.servers.push_back(static_cast<int>(s));
  }
  owners_.known = named_;
}

Reader::Owners Reader::Now() const {
  MutexLock lock(mu_);
  return owners_;
}

std::string Reader::NameOf(int server) const {
  MutexLock lock(mu_);
  TD_REQUIRE(static_cast<size_t>(server) < names_.size());
  return names_[static_cast<size_t>(server)];
}

Status Reader::CheckVersions(const MinVersions& least) const {
  const size_t known = Now().known;
  if (least.size() <= 1 || (named_ <= least.size() && least.size() <= known)) return OkStatus();
  return InvalidArgument(
      "a read has %d minimum versions, expected none, one, or one of each of the %d servers "
      "[TD1004]",
      least.size(), known);
}

uint64_t Reader::Least(const MinVersions& least, int server) const {
  if (least.size() == 1 && named_ != 1) return least[0];
  const auto index = static_cast<size_t>(server);
  return index < least.size() ? least[index] : 0;
}

Reader::~Reader() { channel_->Close(); }

void Reader::Await(PsEvent& done, const std::function<void()>& cancel) {
  while (options_.stop && !done.WaitUntil(channel_->Now() + kStopInterval)) {
    if (!options_.stop()) continue;
    cancel();
    break;
  }
  // Each call ends at its deadline, so this wait ends too.
  done.WaitUntil(Time::max());
}

Status Reader::FindOwners(Time deadline) {
  for (bool more = true; more;) {
    const std::vector<int> asked = Now().servers;
    TD_ASSIGN_OR_RETURN(more, TakeMaps(asked, AskForMaps(asked, deadline)));
  }
  return OkStatus();
}

std::vector<Reader::MapAnswer> Reader::AskForMaps(const std::vector<int>& servers, Time deadline) {
  TD_REQUIRE(!servers.empty());
  ExchangeMapRequest request;
  request.set_job(options_.job);
  request.set_observer(true);
  std::vector<MapAnswer> answers(servers.size());
  std::atomic<size_t> left = servers.size();
  // Each callback keeps the event, because this thread may go on while Set still runs.
  const std::shared_ptr<PsEvent> done = channel_->MakeEvent();
  for (size_t s = 0; s < servers.size(); ++s) {
    channel_->Call(servers[s], rpc::PserverCall::kExchangeMap, rpc::EncodedProto(request), deadline,
                   [&, s, done](const Status& status, codec::Fragments bytes) {
                     answers[s].status =
                         status.ok() ? rpc::ParseMessage(bytes, &answers[s].reply) : status;
                     if (--left == 0) done->Set();
                   });
  }
  Await(*done, [this] { channel_->Close(); });
  return answers;
}

StatusOr<int> Reader::Joined(int number, const std::string& address) {
  if (const auto known = joined_.find(number); known != joined_.end()) return known->second;
  const auto index = static_cast<int>(names_.size());
  TD_RETURN_IF_ERROR(channel_->AddServer(index, address));
  names_.push_back(PserverName(index, address));
  joined_.emplace(number, index);
  return index;
}

StatusOr<bool> Reader::TakeMaps(const std::vector<int>& asked,
                                const std::vector<MapAnswer>& answers) {
  TD_REQUIRE(asked.size() == answers.size());
  BucketMap map;
  Owners owners;
  owners.rows.fill(-1);
  std::map<int, int> indices;            // by number in the job: index of the server
  std::set<std::pair<int, int>> serves;  // server and bucket
  for (size_t s = 0; s < asked.size(); ++s) {
    const bool named = static_cast<size_t>(asked[s]) < named_;
    if (named) TD_RETURN_IF_ERROR(Named(answers[s].status, NameOf(asked[s])));
    if (named) owners.servers.push_back(asked[s]);
    if (!answers[s].status.ok()) continue;
    const ExchangeMapReply& reply = answers[s].reply;
    const BucketMap told = FromProto(reply.map());
    (void)map.Learn(told);
    for (const auto& [number, address] : told.addresses()) map.SetAddress(number, address);
    if (named) indices.emplace(reply.index(), asked[s]);
    for (const uint32_t bucket : reply.bucket()) {
      if (bucket < kRowBuckets) owners.rows[bucket] = asked[s];
      serves.emplace(asked[s], static_cast<int>(bucket));
    }
  }
  bool more = false;
  MutexLock lock(mu_);
  for (const BucketMove& move : map.moves()) {
    if (!indices.contains(move.server)) {
      const auto address = map.addresses().find(move.server);
      if (address == map.addresses().end()) continue;
      TD_ASSIGN_OR_RETURN(const int index, Joined(move.server, address->second));
      indices.emplace(move.server, index);
      owners.servers.push_back(index);
      const auto at = std::ranges::find(asked, index);
      if (at == asked.end()) {
        more = true;
      } else {
        TD_RETURN_IF_ERROR(Named(answers[static_cast<size_t>(at - asked.begin())].status,
                                 names_[static_cast<size_t>(index)]));
      }
    }
    const bool served = serves.contains({indices[move.server], move.bucket});
    if (move.bucket >= kRowBuckets && !served) owners.has_slices = false;
  }
  owners.map_version = map.version();
  owners.known = names_.size();
  owners_ = std::move(owners);
  return more;
}

Status Reader::PullFrom(std::vector<std::shared_ptr<Call>>& calls, const MinVersions& least,
                        Time deadline) {
  TD_REQUIRE(!calls.empty());
  std::atomic<size_t> left = calls.size();
  const std::shared_ptr<PsEvent> done = channel_->MakeEvent();  // as in FindOwners
  for (const std::shared_ptr<Call>& call : calls) {
    call->request.set_job(options_.job);
    call->request.set_observer(true);
    if (!least.empty()) {
      call->request.set_min_version(Least(least, call->server));
    }
    call->request.set_timeout_ms(
        static_cast<uint32_t>(std::max<int64_t>(1, Millis(deadline - channel_->Now()))));
    channel_->Call(call->server, rpc::PserverCall::kPull, rpc::EncodedProto(call->request),
                   deadline + kGrace,
                   [&, call, done](const Status& status, codec::Fragments bytes) {
                     call->status = status;
                     if (status.ok()) {
                       const StatusOr<codec::CodedPullReply> reply = codec::DecodePullReply(bytes);
                       call->status = reply.ok() ? call->take(bytes, *reply) : reply.status();
                       if (reply.ok()) call->version = reply->version;
                     }
                     if (--left == 0) done->Set();
                   });
  }
  Await(*done, [this] {
    for (size_t s = 0; s < Now().known; ++s) channel_->Abandon(static_cast<int>(s));
  });
  for (const std::shared_ptr<Call>& call : calls) {
    TD_RETURN_IF_ERROR(Named(call->status, NameOf(call->server)));
  }
  return OkStatus();
}

StatusOr<Reader::Rows> Reader::ReadRows(const std::string& table, std::span<const int64_t> ids,
                                        const MinVersions& least) {
  TD_RETURN_IF_ERROR(CheckVersions(least));
  if (ids.empty() || ids.size() > kIdsMax) {
    return InvalidArgument("cannot read %d rows of table %s in one call, expected 1 to %d [TD1004]",
                           ids.size(), table, kIdsMax);
  }
  const Time deadline = channel_->Now() + options_.timeout;
  while (true) {
    // The positions in `ids` of the rows of each server.
    std::map<int, std::vector<size_t>> positions;
    const Owners owners = Now();
    for (size_t i = 0; i < ids.size(); ++i) {
      positions[owners.rows[RowBucket(static_cast<uint64_t>(ids[i]))]].push_back(i);
    }
    Rows rows;
    Mutex rows_mu;
    rows.versions.resize(owners.known);
    std::vector<std::shared_ptr<Call>> calls;
    const bool moving = positions.contains(-1);
    for (auto& [server, at] : positions) {
      if (moving) break;
      auto call = std::make_shared<Call>();
      call->server = server;
      RowsRange* const range = call->request.add_rows();
      range->set_variable(table);
      for (const size_t i : at) range->add_id(static_cast<uint64_t>(ids[i]));
      call->take = [&, at = &at](codec::Fragments bytes,
                                 const codec::CodedPullReply& reply) -> Status {
        const auto n = static_cast<int64_t>(at->size());
        if (reply.slices.size() != 1 || reply.slices[0].desc.dtype != DType::kF32 ||
            reply.slices[0].desc.shape.rank() != 2 || reply.slices[0].desc.shape[0] != n) {
          return DataLoss("the reply to a read of %d rows of table %s is wrong", n, table);
        }
        const auto dim = static_cast<size_t>(reply.slices[0].desc.shape[1]);
        std::vector<float> values(at->size() * dim);
        TD_RETURN_IF_ERROR(codec::CopyContent(bytes, reply.slices[0], values.data()));
        MutexLock lock(rows_mu);
        rows.dim = static_cast<int64_t>(dim);
        rows.values.resize(ids.size() * dim);
        for (size_t k = 0; k < at->size(); ++k) {
          std::copy_n(values.data() + k * dim, dim, rows.values.data() + (*at)[k] * dim);
        }
        return OkStatus();
      };
      calls.push_back(std::move(call));
    }
    const Status status = Annotate(moving ? NoOwner() : PullFrom(calls, least, deadline),
                                   "reading rows of table " + table);
    if (status.ok()) {
      for (const auto& call : calls)
        rows.versions[static_cast<size_t>(call->server)] = call->version;
      return rows;
    }
    if (!HasMoved(status) || channel_->Now() >= deadline) return status;
    TD_RETURN_IF_ERROR(Pause());
    const Status found = FindOwners(deadline);
    if (!found.ok()) return channel_->Now() < deadline ? found : status;
  }
}

Status Reader::Pause() {
  channel_->MakeEvent()->WaitUntil(channel_->Now() + kMovePause);
  if (!options_.stop || !options_.stop()) return OkStatus();
  return Cancelled("the reader stopped on request while rows moved between servers");
}

StatusOr<Reader::Dense> Reader::ReadDense(const MinVersions& least) {
  TD_RETURN_IF_ERROR(CheckVersions(least));
  const Time deadline = channel_->Now() + options_.timeout;
  while (true) {
    TD_ASSIGN_OR_RETURN(std::optional<Dense> dense, TryReadDense(least, deadline));
    if (dense) return *std::move(dense);
    if (channel_->Now() >= deadline) {
      if (LacksSome(Now().rows)) return Annotate(NoOwner(), "reading dense variables");
      return Unavailable(
          "reading dense variables: parts of variables move between servers [TD4035]; hint: try "
          "again");
    }
    TD_RETURN_IF_ERROR(Pause());
    const Status found = FindOwners(deadline);
    if (!found.ok() && channel_->Now() < deadline) return found;
  }
}

StatusOr<std::optional<Reader::Dense>> Reader::TryReadDense(const MinVersions& least,
                                                            Time deadline) {
  const Owners owners = Now();
  if (LacksSome(owners.rows) || !owners.has_slices) return std::nullopt;
  Slices slices;
  Mutex mu;
  std::vector<std::shared_ptr<Call>> calls;
  for (const int server : owners.servers) {
    auto call = std::make_shared<Call>();
    call->server = server;
    call->take = [&](codec::Fragments bytes, const codec::CodedPullReply& reply) -> Status {
      for (const codec::CodedSlice& coded : reply.slices) {
        if (coded.desc.dtype != DType::kF32) {
          return DataLoss("variable %s has another type than f32", coded.variable);
        }
        std::vector<float> values(static_cast<size_t>(coded.desc.shape.numel()));
        TD_RETURN_IF_ERROR(codec::CopyContent(bytes, coded, values.data()));
        MutexLock lock(mu);
        slices[coded.variable][coded.offset] = std::move(values);
      }
      return OkStatus();
    };
    calls.push_back(std::move(call));
  }
  TD_RETURN_IF_ERROR(Annotate(PullFrom(calls, least, deadline), "reading dense variables"));
  // Between the maps before and after the pulls, no slice may have moved.
  TD_RETURN_IF_ERROR(FindOwners(deadline + kGrace));
  if (Now().map_version != owners.map_version) return std::nullopt;
  std::optional<std::map<std::string, std::vector<float>>> variables = Whole(slices);
  if (!variables) return std::nullopt;
  Dense dense{.variables = *std::move(variables), .versions = {}};
  dense.versions.resize(owners.known);
  for (const auto& call : calls) dense.versions[static_cast<size_t>(call->server)] = call->version;
  return dense;
}

}  // namespace tandem::ps
