#include "tests/sim/follower.h"

#include <utility>

#include "common/base/check.h"
#include "common/tables/row_buckets.h"
#include "proto/pserver.pb.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

SimFollower::SimFollower(Options options, SimWorld& world, SimNetwork& network)
    : options_(std::move(options)),
      world_(world),
      network_(network),
      states_(options_.servers.size()) {}

void SimFollower::Start() {
  CHECK(!alive());
  ++starts_;
  continued_ += !stored_.token.empty();
  followed_ = {};
  followed_.rows = stored_.rows;
  process_ = std::make_shared<SimProcess>(world_, options_.node);
  world_.Note("follower", static_cast<uint64_t>(options_.node), stored_.token.size());
  process_->Start([this, weak = std::weak_ptr(process_)] { Follow(weak.lock()); });
}

void SimFollower::Kill() {
  if (!alive()) return;
  world_.Note("follower killed", static_cast<uint64_t>(options_.node));
  process_->Kill();
  process_ = nullptr;
}

void SimFollower::Follow(const std::shared_ptr<SimProcess>& process) {
  ps::ReaderOptions reader{.job = options_.job, .security = {}, .timeout = seconds(2)};
  reader.stop = [process = process.get()] { return process->dead(); };
  ps::FollowOptions follow{.table = options_.table, .token = stored_.token};
  follow.interval = world_.Between(milliseconds(3), milliseconds(50));
  // Small replies, so that a follower needs several for the changes of some steps.
  follow.bytes_max = static_cast<uint32_t>(8 + world_.Below(200));
  auto channel = std::make_unique<SimCarrier>(process, network_, options_.servers, /*retries=*/0);
  const auto follower =
      ps::TableFollower::Over(std::move(channel), options_.addresses, reader, std::move(follow));
  CHECK(follower.ok()) << follower.status();
  while (!process->dead()) {
    const auto change = (*follower)->Next(seconds(1));
    if (process->dead()) return;
    if (!change.ok()) {
      world_.Note("follower fails", static_cast<uint64_t>(options_.node));
      (void)process->MakeEvent()->WaitUntil(world_.Now() + milliseconds(20));
    } else if (*change) {
      Take(**follower, **change);
    }
  }
}

void SimFollower::Take(const ps::TableFollower& follower, const ps::TableChange& change) {
  ++changes_;
  removed_ += static_cast<int64_t>(change.removed.size());
  snapshots_ += !change.replaced.empty();
  followed_.Apply(change);
  seen_.insert(change.ids.begin(), change.ids.end());
  const std::string token = follower.token();
  NoteState(token, change);
  // A program may store its rows and its token together, or its rows before its token.
  if (world_.Chance(0.4)) return;
  stored_.rows = followed_.rows;
  if (world_.Chance(0.7) || options_.stores_together) stored_.token = token;
}

void SimFollower::NoteState(const std::string& token, const ps::TableChange& change) {
  const uint64_t history = options_.log_history(change.server);
  ChangeToken parsed;
  CHECK(parsed.ParseFromString(token));
  for (const ChangeToken::Server& server : parsed.server()) {
    const ChangePosition& position = server.position();
    if (history == 0 || position.history() != history) continue;
    if (position.version() != change.version || position.until() > position.version()) continue;
    State noted;
    for (const ServedBuckets& range : server.held()) {
      for (uint32_t b = range.begin(); b < range.end(); ++b) noted.held.set(b);
    }
    for (const auto& [id, values] : followed_.rows) {
      if (noted.held[static_cast<size_t>(RowBucket(id))]) noted.rows[id] = values;
    }
    states_[change.server][position.number()] = std::move(noted);
  }
}

}  // namespace tandem::pserver
