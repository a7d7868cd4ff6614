#include "pserver/client/moves/bucket_migrator.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/codec/bucket_map_proto.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

using rpc::PserverCall;

constexpr size_t kBucketsInParcel = 64;
// Assumed minimum transfer rate between servers, in bytes per second.
constexpr uint64_t kBytesOfSecond = 50 << 20;
constexpr uint64_t kAheadMax = 64;  // maximum number of steps of notice before a move
// Time limit of a call that may fail without harm.
constexpr Duration kMayBeGone = std::chrono::seconds(1);

bool IsLost(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kCancelled ||
         code == StatusCode::kDeadlineExceeded || code == StatusCode::kResourceExhausted;
}

size_t Bytes(const ParcelDef& parcel) {
  size_t sum = 0;
  for (const TableRows& rows : parcel.rows()) sum += rows.content().size();
  for (const SliceParcelDef& slice : parcel.slice()) {
    sum += slice.param().tensor().content().size();
    for (const SlotTensor& slot : slice.slot()) sum += slot.tensor().content().size();
  }
  return sum;
}

std::map<int, uint64_t> SliceBytes(const ExchangeMapReply& reply) {
  std::map<int, uint64_t> bytes;
  int next = 0;
  for (const uint32_t bucket : reply.bucket()) {
    if (bucket < kRowBuckets || next >= reply.slice_bytes_size()) continue;
    bytes[static_cast<int>(bucket)] = reply.slice_bytes(next++);
  }
  return bytes;
}

}  // namespace

std::string BucketMigrator::NameOf(int server) const {
  TD_REQUIRE(server >= 0 && static_cast<size_t>(server) < addresses_.size());
  return PserverName(server, addresses_[static_cast<size_t>(server)]);
}

Status BucketMigrator::Pause(Duration pause) {
  const std::shared_ptr<PsEvent> over = carrier_.MakeEvent();
  carrier_.After(pause, [over] { over->Set(); });
  if (over->WaitUntil(carrier_.Now() + pause + options_.call_timeout)) return OkStatus();
  return Cancelled("the migration of row buckets was stopped on request");
}

template <typename Request, typename Reply>
Status BucketMigrator::Call(int server, rpc::PserverCall call, const Request& request, Reply* reply,
                            Duration patience) {
  struct Waiting {
    std::shared_ptr<PsEvent> ended;
    Status status;
    Reply reply;
  };
  const Time give_up = carrier_.Now() + patience;
  while (true) {
    const auto waiting = std::make_shared<Waiting>();
    waiting->ended = carrier_.MakeEvent();
    carrier_.Call(server, call, rpc::EncodedProto(request),
                  carrier_.Now() + std::min(options_.call_timeout + more_, patience),
                  [waiting](const Status& status, codec::Fragments answer) {
                    waiting->status =
                        status.ok() ? rpc::ParseMessage(answer, &waiting->reply) : status;
                    waiting->ended->Set();
                  });
    // The channel ends the call at its deadline. This wait is a second limit, if the channel does
    // not.
    if (!waiting->ended->WaitUntil(carrier_.Now() + 2 * (options_.call_timeout + more_))) {
      return Cancelled("%s did not reply to %s [TD4025]", NameOf(server), rpc::NameOf(call));
    }
    if (waiting->status.ok()) {
      *reply = std::move(waiting->reply);
      return OkStatus();
    }
    if (!IsLost(waiting->status.code()) || carrier_.Now() >= give_up) {
      return Annotate(waiting->status, NameOf(server));
    }
    TD_RETURN_IF_ERROR(Annotate(Pause(), NameOf(server)));
  }
}

Status BucketMigrator::Exchange(int server, const BucketMap& known, Duration patience,
                                ExchangeMapReply* reply) {
  ExchangeMapRequest request;
  request.set_job(options_.job);
  request.set_observer(true);
  ToProto(known, request.mutable_known());
  return Call(server, PserverCall::kExchangeMap, request, reply, patience);
}

Status BucketMigrator::Tell(int server, const BucketMapDef& map) {
  ExchangeMapReply reply;
  return Exchange(server, FromProto(map), options_.patience, &reply);
}

Status BucketMigrator::Refuse(int server, bool refuse) {
  RefuseBucketsRequest request;
  RefuseBucketsReply reply;
  request.set_job(options_.job);
  request.set_refuse(refuse);
  return Call(server, PserverCall::kRefuseBuckets, request, &reply);
}

Status BucketMigrator::Leave(int server) {
  TD_RETURN_IF_ERROR(Refuse(server, true));
  // Waits for the end of earlier moves to the server. As long as buckets are frozen at a source,
  // this source can still release offered buckets to the server.
  const Time give_up = carrier_.Now() + options_.patience;
  while (true) {
    TD_ASSIGN_OR_RETURN(const std::vector<ServedBuckets> now, Where());
    const auto source = std::find_if(now.begin(), now.end(), [server](const ServedBuckets& s) {
      return s.frozen_for == server;
    });
    if (source == now.end()) return OkStatus();
    if (carrier_.Now() >= give_up) {
      return Unavailable(
          "row buckets of %s are still frozen for a migration to pserver %d; hint: try again",
          NameOf(source->server), server);
    }
    TD_RETURN_IF_ERROR(Pause());
  }
}

Status BucketMigrator::Add(const std::string& address) {
  TD_RETURN_IF_ERROR(carrier_.AddServer(static_cast<int>(addresses_.size()), address));
  addresses_.push_back(address);
  return OkStatus();
}

StatusOr<std::vector<ServedBuckets>> BucketMigrator::Where() {
  BucketMap all;
  std::vector<ServedBuckets> now;
  const Time give_up = carrier_.Now() + options_.patience;
  // Repeats the exchange until all servers know the same moves. If a move ends during this loop,
  // only the source may know the move at first.
  for (bool news = true; news;) {
    if (carrier_.Now() >= give_up) {
      return Unavailable(
          "another migration of this job is running; hint: wait until the other migration has "
          "ended");
    }
    news = false;
    now.clear();
    for (size_t i = 0; i < addresses_.size(); ++i) {
      const auto server = static_cast<int>(i);
      ExchangeMapReply reply;
      const bool needed = server < first_servers_ && !options_.drained.contains(server);
      const bool may_be_gone = !needed && !all.OwnsAny(server);
      const Status told =
          Exchange(server, all, may_be_gone ? kMayBeGone : options_.patience, &reply);
      if (may_be_gone && IsLost(told.code())) continue;
      TD_RETURN_IF_ERROR(told);
      if (static_cast<int>(reply.index()) != server) {
        return FailedPrecondition(
            "%s reports that its index is %d, which is not its position in the list of servers "
            "[TD1005]; hint: name servers in the order of their --index, new servers last",
            NameOf(server), reply.index());
      }
      news |= !all.Learn(FromProto(reply.map())).empty();
      const auto next = all.addresses().find(static_cast<int>(addresses_.size()));
      if (next != all.addresses().end()) TD_RETURN_IF_ERROR(Add(next->second));
      now.push_back({server,
                     addresses_[i],
                     {reply.bucket().begin(), reply.bucket().end()},
                     reply.rows(),
                     reply.slices(),
                     SliceBytes(reply),
                     reply.leaving(),
                     static_cast<int>(reply.frozen_for()) - 1,
                     reply.version(),
                     reply.sync()});
      slice_bytes_.insert(now.back().slice_bytes.begin(), now.back().slice_bytes.end());
    }
  }
  return now;
}

Status BucketMigrator::Deliver(int source, int target, const ParcelDef& parcel) {
  OfferBucketsRequest offer;
  OfferBucketsReply offered;
  offer.set_job(options_.job);
  *offer.mutable_parcel() = parcel;
  if (target < first_servers_) offer.mutable_parcel()->clear_config();
  TD_RETURN_IF_ERROR(Call(target, PserverCall::kOfferBuckets, offer, &offered));
  ReleaseBucketsRequest release;
  ReleaseBucketsReply released;
  release.set_job(options_.job);
  *release.mutable_move() = parcel.move();
  TD_RETURN_IF_ERROR(Call(source, PserverCall::kReleaseBuckets, release, &released));
  return Tell(target, released.map());
}

Status BucketMigrator::AwaitStep() {
  const Time give_up = carrier_.Now() + options_.patience;
  TD_ASSIGN_OR_RETURN(const std::vector<ServedBuckets> before, Where());
  while (true) {
    TD_ASSIGN_OR_RETURN(const std::vector<ServedBuckets> now, Where());
    const bool made = std::all_of(before.begin(), before.end(), [&now](const ServedBuckets& b) {
      if (!b.sync || (b.buckets.empty() && b.slices == 0)) return true;
      return std::any_of(now.begin(), now.end(), [&b](const ServedBuckets& n) {
        return n.server == b.server && n.version > b.version;
      });
    });
    if (made) return OkStatus();
    if (carrier_.Now() >= give_up) {
      return Unavailable(
          "trainers made no step for %.0f s, so the trainers may still use the old owner of the "
          "rows; hint: try again while trainers run",
          Seconds(options_.patience));
    }
    TD_RETURN_IF_ERROR(Pause());
  }
}

// Calls the source first: the target may wait for the result of an older move, which the source
// knows.
StatusOr<BucketMigrator::MoveStep> BucketMigrator::NextStep(int source, int target) {
  if (any_time_) return MoveStep{};
  MoveStep at;
  BucketMap known;
  bool sync = false;
  for (const int server : {source, target}) {
    ExchangeMapReply reply;
    TD_RETURN_IF_ERROR(Exchange(server, known, options_.patience, &reply));
    const bool serves = reply.bucket_size() != 0 || reply.slices() != 0;
    if (server == source) {
      sync = reply.sync();
      at.once = reply.each_step_once();
    } else if (serves && at.once != reply.each_step_once()) {
      return Unavailable(
          "%s does not know yet whether the job has a stream; hint: try again after the next step "
          "of the trainers",
          NameOf(at.once ? target : source));
    }
    known.Learn(FromProto(reply.map()));
    at.step = std::max<uint64_t>(at.step, reply.version());
    at.both = serves;
  }
  any_time_ = !sync && !at.once;
  if (any_time_) return MoveStep{};
  at.step = sync ? at.step + ahead_ : 0;
  return at;
}

StatusOr<ParcelDef> BucketMigrator::Freeze(int source, int target,
                                           const FreezeBucketsRequest& request, const MoveStep& at,
                                           Time& held) {
  const Time give_up = carrier_.Now() + options_.patience;
  bool begun = false;
  while (true) {
    FreezeBucketsReply from, to;
    if (at.both) TD_RETURN_IF_ERROR(Call(target, PserverCall::kFreezeBuckets, request, &to));
    TD_RETURN_IF_ERROR(Call(source, PserverCall::kFreezeBuckets, request, &from));
    const bool gives = from.parcel().move_size() != 0;
    const bool takes = at.both && to.parcel().version() == at.step;
    if ((gives || takes) && !std::exchange(begun, true)) held = carrier_.Now();
    if (gives && (takes || !at.both)) return std::move(*from.mutable_parcel());
    if (carrier_.Now() >= give_up) {
      return Unavailable(
          "%s and %s did not reach step %d within %.0f s [TD4007]; hint: migrate rows only while "
          "trainers run",
          NameOf(source), NameOf(target), DisplayStep(at.step), Seconds(options_.patience));
    }
    TD_RETURN_IF_ERROR(Pause());
  }
}

StatusOr<ParcelDef> BucketMigrator::FreezeOnce(int source, int target, FreezeBucketsRequest request,
                                               bool both) {
  const Time give_up = carrier_.Now() + options_.lease;
  while (true) {
    FreezeBucketsReply from, to;
    if (both) TD_RETURN_IF_ERROR(Call(target, PserverCall::kFreezeBuckets, request, &to));
    TD_RETURN_IF_ERROR(Call(source, PserverCall::kFreezeBuckets, request, &from));
    const auto& steps = from.parcel().trainer_step();
    const auto& others = both ? to.parcel().trainer_step() : steps;
    if (from.parcel().move_size() != 0 && std::ranges::equal(steps, others)) {
      return std::move(*from.mutable_parcel());
    }
    if (steps.size() != others.size()) {
      return Unavailable("%s and %s know different numbers of trainers; hint: try again later",
                         NameOf(source), NameOf(target));
    }
    if (carrier_.Now() >= give_up) {
      const auto [here, there] = std::ranges::mismatch(steps, others);
      if (here == steps.end()) return Aborted("the freeze of the row buckets ended too early");
      return Aborted(
          "%s has %d steps of trainer %d, but %s has %d [TD4007]; hint: wait until the trainer "
          "runs",
          NameOf(source), *here, here - steps.begin(), NameOf(target), *there);
    }
    // Both servers now reject later steps. They may lack earlier ones, which are on their way.
    const bool ask = request.trainer_step_size() == 0;
    for (int r = 0; ask && r < steps.size(); ++r) {
      request.add_trainer_step(std::max(steps[r], others[r]));
    }
    if (!ask) TD_RETURN_IF_ERROR(Pause());
  }
}

void BucketMigrator::Unfreeze(int source, int target, FreezeBucketsRequest request, bool both) {
  request.set_over(true);
  FreezeBucketsReply reply;
  Call(source, PserverCall::kFreezeBuckets, request, &reply, kMayBeGone).IgnoreError();
  if (both) Call(target, PserverCall::kFreezeBuckets, request, &reply, kMayBeGone).IgnoreError();
}

Duration BucketMigrator::TimeFor(const std::vector<int>& buckets) const {
  uint64_t bytes = 0;
  for (const int b : buckets) {
    const auto slice = slice_bytes_.find(b);
    if (slice != slice_bytes_.end()) bytes += slice->second;
  }
  return std::chrono::seconds(bytes / kBytesOfSecond);
}

Status BucketMigrator::Move(int source, int target, const std::vector<int>& buckets,
                            MoveProgress& progress) {
  const Time give_up = carrier_.Now() + options_.patience;
  more_ = TimeFor(buckets);
  while (true) {
    TD_ASSIGN_OR_RETURN(const MoveStep at, NextStep(source, target));
    FreezeBucketsRequest request;
    request.set_job(options_.job);
    for (const int b : buckets) request.add_bucket(static_cast<uint32_t>(b));
    request.set_target(static_cast<uint32_t>(target));
    request.set_target_address(addresses_[static_cast<size_t>(target)]);
    request.set_lease_ms(static_cast<uint64_t>(Millis(options_.lease + more_)));
    request.set_step(at.step);
    request.set_knows_trainer_steps(true);
    Time begin = carrier_.Now();
    const StatusOr<ParcelDef> parcel = at.once ? FreezeOnce(source, target, request, at.both)
                                               : Freeze(source, target, request, at, begin);
    Status delivered = parcel.ok() ? Deliver(source, target, *parcel) : parcel.status();
    if (parcel.ok()) progress.frozen = std::max(progress.frozen, carrier_.Now() - begin);
    if (delivered.ok()) {
      progress.bytes += Bytes(*parcel);
      return OkStatus();
    }
    const bool late = parcel.status().code() == StatusCode::kAborted;
    if (late) ahead_ = std::min(2 * ahead_, kAheadMax);
    if (at.between()) Unfreeze(source, target, request, at.both);
    // kAborted: the source still owns the buckets. Causes: the lease of the freeze ended, a server
    // was restarted, or a server reached step at.step before the move.
    if (delivered.code() != StatusCode::kAborted || carrier_.Now() >= give_up) return delivered;
    // A trainer that is being replaced takes time. Meanwhile the other trainers make steps.
    TD_RETURN_IF_ERROR(late && at.once ? Pause(options_.lease) : Pause());
  }
}

size_t BucketMigrator::EndOfParcel(const BucketTransfer& transfer, size_t begin,
                                   uint64_t row_bucket_bytes) const {
  TD_REQUIRE(begin < transfer.buckets.size());
  size_t end = begin;
  for (uint64_t bytes = 0; end < transfer.buckets.size() && end - begin < kBucketsInParcel; ++end) {
    const auto slice = slice_bytes_.find(transfer.buckets[end]);
    bytes += slice == slice_bytes_.end() ? row_bucket_bytes : slice->second;
    if (bytes > options_.parcel_bytes && end > begin) break;
  }
  return end;
}

Status BucketMigrator::Run(const std::vector<BucketTransfer>& transfers,
                           const std::function<void(const MoveProgress&)>& progress) {
  MoveProgress state;
  for (const BucketTransfer& t : transfers) state.buckets += t.buckets.size();
  uint64_t each = options_.parcel_bytes;  // bytes of a row bucket, estimated from the last batch
  for (const BucketTransfer& t : transfers) {
    state.source = t.source;
    state.target = t.target;
    for (size_t begin = 0; begin < t.buckets.size();) {
      const size_t end = EndOfParcel(t, begin, each);
      const auto at = [&](size_t i) { return t.buckets.begin() + static_cast<std::ptrdiff_t>(i); };
      const uint64_t before = state.bytes;
      TD_RETURN_IF_ERROR(Move(t.source, t.target, {at(begin), at(end)}, state));
      state.done += end - begin;
      if (t.buckets[begin] < kRowBuckets) each = (state.bytes - before) / (end - begin) + 1;
      begin = end;
      if (progress) progress(state);
    }
  }
  return OkStatus();
}

}  // namespace tandem::ps
