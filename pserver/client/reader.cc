#include "pserver/client/reader.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <utility>

#include "common/base/require.h"
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

}  // namespace

// A pull from one server, and its result.
struct Reader::Call {
  int server = 0;
  PullRequest request;
  std::function<Status(codec::Fragments, const codec::CodedPullReply&)> take;
  uint64_t version = 0;
  Status status;
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
    : options_(std::move(options)), servers_(servers.size()), channel_(std::move(channel)) {
  for (size_t s = 0; s < servers_; ++s) {
    names_.push_back(PserverName(static_cast<int>(s), servers[s]));
  }
}

Status Reader::CheckVersions(const MinVersions& least) const {
  if (least.size() <= 1 || least.size() == servers_) return OkStatus();
  return InvalidArgument(
      "a read has %d minimum versions, expected none, one, or one of each of the %d servers "
      "[TD1004]",
      least.size(), servers_);
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
  TD_REQUIRE(servers_ > 0);
  ExchangeMapRequest request;
  request.set_job(options_.job);
  request.set_observer(true);
  struct Answer {
    Status status;
    ExchangeMapReply reply;
  };
  std::vector<Answer> answers(servers_);
  std::atomic<size_t> left = servers_;
  // Each callback keeps the event, because this thread may go on while Set still runs.
  const std::shared_ptr<PsEvent> done = channel_->MakeEvent();
  for (size_t s = 0; s < servers_; ++s) {
    channel_->Call(static_cast<int>(s), rpc::PserverCall::kExchangeMap, rpc::EncodedProto(request),
                   deadline, [&, s, done](const Status& status, codec::Fragments bytes) {
                     answers[s].status =
                         status.ok() ? rpc::ParseMessage(bytes, &answers[s].reply) : status;
                     if (--left == 0) done->Set();
                   });
  }
  Await(*done, [this] { channel_->Close(); });
  std::array<int, kRowBuckets> owners;
  owners.fill(-1);
  for (size_t s = 0; s < servers_; ++s) {
    TD_RETURN_IF_ERROR(Named(answers[s].status, names_[s]));
    for (const uint32_t bucket : answers[s].reply.bucket()) {
      if (bucket < kRowBuckets) owners[bucket] = static_cast<int>(s);
    }
  }
  MutexLock lock(mu_);
  owners_ = owners;
  return OkStatus();
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
      call->request.set_min_version(least.size() == 1 ? least[0]
                                                      : least[static_cast<size_t>(call->server)]);
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
    for (size_t s = 0; s < servers_; ++s) channel_->Abandon(static_cast<int>(s));
  });
  for (const std::shared_ptr<Call>& call : calls) {
    TD_RETURN_IF_ERROR(Named(call->status, names_[static_cast<size_t>(call->server)]));
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
    {
      MutexLock lock(mu_);
      for (size_t i = 0; i < ids.size(); ++i) {
        positions[owners_[RowBucket(static_cast<uint64_t>(ids[i]))]].push_back(i);
      }
    }
    Rows rows;
    Mutex rows_mu;
    rows.versions.resize(servers_);
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

bool Reader::LacksOwners() const {
  MutexLock lock(mu_);
  const auto lacking = std::ranges::count(owners_, -1);
  return lacking != 0 && lacking != std::ssize(owners_);
}

StatusOr<Reader::Dense> Reader::ReadDense(const MinVersions& least) {
  TD_RETURN_IF_ERROR(CheckVersions(least));
  const Time deadline = channel_->Now() + options_.timeout;
  while (LacksOwners()) {
    if (channel_->Now() >= deadline) return Annotate(NoOwner(), "reading dense variables");
    TD_RETURN_IF_ERROR(Pause());
    const Status found = FindOwners(deadline);
    if (!found.ok() && channel_->Now() < deadline) return found;
  }
  // The slices of each variable, by their first element.
  std::map<std::string, std::map<int64_t, std::vector<float>>> slices;
  Mutex mu;
  std::vector<std::shared_ptr<Call>> calls;
  for (size_t s = 0; s < servers_; ++s) {
    auto call = std::make_shared<Call>();
    call->server = static_cast<int>(s);
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
  Dense dense;
  for (const auto& call : calls) dense.versions.push_back(call->version);
  for (auto& [name, parts] : slices) {
    std::vector<float>& values = dense.variables[name];
    for (const auto& [offset, part] : parts) {
      if (static_cast<size_t>(offset) != values.size()) {
        return Unavailable("a part of variable %s moves between servers; hint: try again", name);
      }
      values.insert(values.end(), part.begin(), part.end());
    }
  }
  return dense;
}

}  // namespace tandem::ps
