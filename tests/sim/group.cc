#include "tests/sim/group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem::pserver {

using deploy::ServerGroup;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

SimGroup::SimGroup(int index, const SimServerOptions& options, bool deaths_while_damaged,
                   SimWorld& world, SimNetwork& network)
    : index_(index),
      world_(world),
      wal_sync_(options.wal_sync),
      replication_(options.replication),
      deaths_while_damaged_(deaths_while_damaged) {
  CHECK(options.group.standbys > 0 && options.checkpoints != nullptr);
  for (int m = 0; m <= options.group.standbys; ++m) {
    SimServerOptions made = options;
    made.group.member = m;
    made.group.network = &network;
    made.group.address = this;
    made.group.primary = [this](int member) {
      SimServer& server = *Of(member).server;
      return server.serves() ? &server : nullptr;
    };
    made.group.on_term = [this](int member, const LogTerm& term, uint64_t last) {
      OnTerm(member, term, last);
    };
    made.group.on_replicated = [this](int member, const LogTerm& term, uint64_t number) {
      OnReplicated(member, term, number);
    };
    members_.push_back(std::make_unique<Member>());
    members_.back()->server = std::make_unique<SimServer>(index, std::move(made), world);
  }
}

SimGroup::~SimGroup() = default;

void SimGroup::Start() {
  Launch();
  world_.After(milliseconds(10), [this] { Tick(); });
  world_.After(seconds(1), [this] { Ping(); });
}

void SimGroup::Launch() {
  ServerGroup::Options options{.quorum = replication_ == Replication::kQuorum};
  options.terms_skipped = world_.Below(100);
  group_ = std::make_unique<ServerGroup>(index_, members(), options);
  for (int m = 0; m < members(); ++m) StartMember(m);
}

SimServer* SimGroup::primary() {
  for (const auto& m : members_) {
    if (m->known && m->server->serves()) return m->server.get();
  }
  return nullptr;
}

SimServer* SimGroup::Listener() {
  for (const auto& m : members_) {
    if (m->stale && m->server->serves() && world_.Chance(0.5)) return m->server.get();
  }
  return primary();
}

// ---- The launcher -------------------------------------------------------------------------------

void SimGroup::StartMember(int member) {
  Member& m = Of(member);
  if (m.server->alive()) return;
  if (const Status status = m.server->Start(); !status.ok()) {
    return Wrong(absl::StrFormat("member %d of server %d does not start: %s", member, index_,
                                 ToString(status)));
  }
  m.known = true;
  m.stale = false;
  group_->OnStarted(member);
  Send(group_->Next());
}

void SimGroup::StartSoon(int member) {
  world_.After(Soon(200), [this, member, launch = launches_] {
    if (launch == launches_) StartMember(member);
  });
}

void SimGroup::Send(const std::vector<ServerGroup::Command>& commands) {
  for (ServerGroup::Command c : commands) {
    if (c.command.kind == MemberCommand::Kind::kFollow) {
      c.command.text = std::to_string(group_->primary());
    }
    world_.After(world_.Between(microseconds(20), microseconds(2000)),
                 [this, c, life = Of(c.member).server->lives()] {
                   const Member& m = Of(c.member);
                   if (m.known && m.server->lives() == life) Deliver(c.member, c.command);
                 });
  }
}

void SimGroup::Deliver(int member, const MemberCommand& command) {
  SimServer& server = *Of(member).server;
  const uint64_t life = server.lives();
  const auto send = [this, member, life](const MemberReport& report) {
    world_.After(world_.Between(microseconds(20), microseconds(2000)), [=, this] {
      if (Of(member).known && Of(member).server->lives() == life) OnReport(member, report);
    });
  };
  const auto end = [this, member, kind = command.kind](const Status& why) {
    if (kind == MemberCommand::Kind::kRefuse) return OnRefused(why);
    world_.Note("member ends", static_cast<uint64_t>(member));
    End(member, Loss::kNone);
  };
  server.OnCommand(command, send, end);
}

// The launcher may end the server only if too few members have a complete state on their disks.
void SimGroup::OnRefused(const Status& why) {
  int complete = 0;
  for (const auto& m : members_) complete += m->server->disk().has_complete_state();
  if (deaths_while_damaged_ && complete < members() - members() / 2) {
    world_.Note("given up", static_cast<uint64_t>(index_));
    given_up_ = true;
    return;
  }
  Wrong(absl::StrFormat("the launcher ends server %d, and %d members have its state: %s", index_,
                        complete, ToString(why)));
}

void SimGroup::OnReport(int member, const MemberReport& report) {
  if (group_->OnReport(member, report) && group_->replaced()) {
    world_.Note("promoted", static_cast<uint64_t>(index_), static_cast<uint64_t>(member));
    ++counts_.promotions;
  }
  Send(group_->Next());
}

void SimGroup::Ping() {
  Send(group_->Ping());
  for (int m = 0; m < members(); ++m) {
    if (!Of(m).known || !group_->Hangs(m)) continue;
    ++counts_.hangs;
    End(m, Loss::kNone);
  }
  world_.After(seconds(1), [this] { Ping(); });
}

// ---- Checks -------------------------------------------------------------------------------------

void SimGroup::OnTerm(int member, const LogTerm& term, uint64_t last) {
  for (const Term& t : terms_) {
    if (t.term != term) continue;
    Wrong(absl::StrFormat("members %d and %d of server %d are primaries of term %d", t.member,
                          member, index_, term.number));
  }
  terms_.push_back({term, last, member});
  NoteTold();
  Shard& shard = this->member(member).shard();
  const uint64_t version = shard.Info().version;
  if (version >= told_ || replication_ == Replication::kAsync) return;
  Wrong(
      absl::StrFormat("member %d of server %d becomes the primary with version %d, but version "
                      "%d was in a reply",
                      member, index_, version, told_));
}

// Checks that no acknowledged log entry is lost: if a primary acknowledges an entry in a term, all
// primaries of later terms must have this entry.
void SimGroup::OnReplicated(int member, const LogTerm& term, uint64_t number) {
  for (const Term& t : terms_) {
    if (t.term.history != term.history || !t.term.After(term) || number <= t.last) continue;
    Wrong(
        absl::StrFormat("member %d of server %d acknowledges entry %d in term %d, but member %d "
                        "is the primary of term %d from entry %d on",
                        member, index_, number, term.number, t.member, t.term.number, t.last));
  }
}

void SimGroup::NoteTold() {
  for (const auto& m : members_) told_ = std::max(told_, m->server->told());
}

bool SimGroup::AllHave(uint64_t number) {
  SimServer* const server = primary();
  if (server == nullptr || server->paused()) return false;
  for (const auto& m : members_) {
    if (!m->known || !m->server->alive() || m->server->paused()) return false;
    // The primary may know only what this member had before it lost entries.
    if (!m->server->complete() || m->server->last() < number) return false;
  }
  const std::vector<StandbyInfo> standbys = server->source()->standbys();
  return standbys.size() + 1 == members_.size() &&
         std::all_of(standbys.begin(), standbys.end(), [&](const StandbyInfo& s) {
           return s.silent < milliseconds(1500) && s.current && s.stored >= number;
         });
}

bool SimGroup::whole() {
  SimServer* const server = primary();
  return server != nullptr && AllHave(server->stored());
}

// Checks whether the group has become whole. The group counts as whole when each member has all log
// entries that the primary had at the start of the term, or at the last loss of entries.
void SimGroup::Tick() {
  if (SimServer* const server = primary(); server != nullptr) {
    const LogTerm term = server->source()->term();
    if (goal_.term != term) {
      goal_ = {term, server->stored(), 0};
      caught_up_ = false;
    } else if (AllHave(goal_.last)) {
      caught_up_ = true;
      damaged_ = false;
      for (const auto& m : members_) m->lossy = false;
    }
  }
  for (const auto& m : members_) {
    if (!m->server->wrong().empty()) Wrong(m->server->wrong());
  }
  world_.After(milliseconds(10), [this] { Tick(); });
}

// ---- Faults -------------------------------------------------------------------------------------

bool SimGroup::MayDie(int member) const {
  // With two standbys, the launcher gives the server up if fewer than two members are complete. At
  // the start, and after a promotion until a standby has reached the new term, only the primary is
  // complete, so no member may die.
  if (!caught_up_ && members() > 2) return false;
  if (deaths_while_damaged_) return true;
  for (int m = 0; m < members(); ++m) {
    if (m != member && members_[static_cast<size_t>(m)]->lossy) return false;
  }
  return true;
}

// Returns whether a member may lose log entries now. After a promotion, a standby that fetches a
// checkpoint has an older state than before, until it has also fetched the later log entries. A
// loss of the primary's disk during this time loses pushes. Therefore such a loss is injected only
// with deaths_while_damaged.
bool SimGroup::MayLose() {
  SimServer* const server = primary();
  if (damaged_ || server == nullptr) return false;
  if (!deaths_while_damaged_ && (!caught_up_ || goal_.term != server->source()->term())) {
    return false;
  }
  return std::all_of(members_.begin(), members_.end(), [](const auto& m) {
    return m->known && m->server->alive() && !m->server->paused() && !m->server->disk().full();
  });
}

void SimGroup::Kill(int member, Loss loss) {
  if (!Of(member).server->alive() || !MayDie(member)) return;
  // If all members lose their power within one sync interval, they lose acknowledged pushes.
  if (deaths_while_damaged_ && loss == Loss::kPower && wal_sync_ != WalSync::kAlways) {
    loss = Loss::kNone;
  }
  const bool loses = loss == Loss::kDisk || (loss == Loss::kPower && wal_sync_ != WalSync::kAlways);
  if (loses && !MayLose()) loss = Loss::kNone;
  if (loses && loss != Loss::kNone) {
    damaged_ = Of(member).lossy = true;
    goal_ = {};
  }
  End(member, loss);
}

void SimGroup::End(int member, Loss loss) {
  Member& m = Of(member);
  if (!m.server->alive()) return;
  ++counts_.deaths;
  NoteTold();
  if (loss == Loss::kDisk) {
    ++counts_.disks;
    m.server->LoseDisk();
  } else {
    m.server->Kill(loss == Loss::kPower);
  }
  m.stale = false;
  if (std::exchange(m.known, false)) group_->OnEnded(member);
  Send(group_->Next());
  StartSoon(member);
}

void SimGroup::FillDisk(int member, Duration pause) {
  if (MayDie(member)) Of(member).server->disk().FullUntil(world_.Now() + pause);
}

void SimGroup::KillSoon(int member, Loss loss) {
  SimServer& server = *Of(member).server;
  if (!server.alive()) return;
  server.disk().DieIn(world_.Below(6), [this, member, loss] { Kill(member, loss); });
}

void SimGroup::Restart(bool power) {
  for (int m = 0; m < members(); ++m) {
    if (!MayDie(m)) return;
  }
  world_.Note("group restarts", static_cast<uint64_t>(index_));
  NoteTold();
  for (const auto& m : members_) {
    m->known = m->stale = false;
    if (!m->server->alive()) continue;
    ++counts_.deaths;
    m->server->Kill(power && wal_sync_ == WalSync::kAlways);
  }
  world_.After(Soon(200), [this, launch = ++launches_] {
    if (launch == launches_) Launch();
  });
}

void SimGroup::Pause(int member, Duration pause) {
  SimServer& server = *Of(member).server;
  if (!server.alive() || server.paused() || !MayDie(member)) return;
  world_.Note("member paused", static_cast<uint64_t>(server.node()));
  server.Pause();
  world_.After(pause, [&server, life = server.lives()] {
    if (server.lives() == life && server.paused()) server.Continue();
  });
}

void SimGroup::LoseContact(Duration pause) {
  SimServer* const server = primary();
  if (server == nullptr) return;
  for (int m = 0; m < members(); ++m) {
    if (Of(m).server.get() != server || !MayDie(m)) continue;
    world_.Note("contact lost", static_cast<uint64_t>(server->node()));
    ++counts_.stale;
    Of(m).known = false;
    Of(m).stale = true;
    group_->OnEnded(m);
    Send(group_->Next());
    world_.After(pause, [this, m, life = server->lives()] {
      if (Of(m).stale && Of(m).server->lives() == life) End(m, Loss::kNone);
    });
  }
}

}  // namespace tandem::pserver
