#include "deploy/launch/hosts/server_group.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::deploy {

namespace {

// States of one history with a greater key are later.
auto KeyOf(const MemberReport& r) { return std::make_tuple(r.term, r.start, r.last); }

}  // namespace

bool ServerGroup::Member::HasLostEntries() const {
  return report && furthest && report->history == furthest->history &&
         KeyOf(*report) < KeyOf(*furthest);
}

ServerGroup::ServerGroup(int index, int members, Options options)
    : index_(index), options_(options), members_(static_cast<size_t>(members)) {
  TD_REQUIRE(index >= 0 && members >= 2);
}

ServerGroup::Member& ServerGroup::Of(int member) {
  TD_REQUIRE(member >= 0 && static_cast<size_t>(member) < members_.size());
  return members_[static_cast<size_t>(member)];
}

void ServerGroup::OnStarted(int member) {
  TD_REQUIRE(!Of(member).running);
  Of(member) = {.running = true, .furthest = Of(member).furthest};
}

void ServerGroup::OnEnded(int member) {
  Of(member) = {.furthest = Of(member).furthest};
  if (member != primary_) return;
  primary_ = -1;
  handed_over_ = handing_over_ ? member : -1;
  serving_ = handing_over_ = false;
  for (Member& m : members_) m.follows = 0;
  // Begins a new election, which ignores earlier reports: since its last report, a member may have
  // stored further log entries.
  election_from_ = requests_ + 1;
}

void ServerGroup::OnClosed(int member) {
  TD_REQUIRE(Of(member).running);
  Of(member).closed = true;
}

ServerGroup::Command ServerGroup::HandOver() {
  TD_REQUIRE(serving_);
  handing_over_ = true;
  return {primary_, {MemberCommand::Kind::kHandOver, 0, ""}};
}

bool ServerGroup::OnReport(int member, const MemberReport& report) {
  Member& m = Of(member);
  // Ignores a report of a process that has ended, and a reply to a request that was made to an
  // earlier process of the member.
  if (!m.running || report.number > m.asked) return false;
  m.answered = true;
  if (report.number >= m.held_at) m.held_at = 0;
  if (report.number > m.follows && report.following != m.follows) m.follows = 0;
  m.unanswered = 0;
  m.report = report;
  if (report.has_state && report.complete && !m.HasLostEntries()) m.furthest = report;
  had_state_ = had_state_ || report.has_state;
  if (member == primary_) term_ = std::max(term_, report.term);
  // A member handles its commands one after the other, and answers a request after its appointment
  // when it serves.
  appointment_lost_ |=
      member == primary_ && !serving_ && !report.primary && report.number > appointed_after_;
  const bool begins = member == primary_ && report.primary && !serving_;
  serving_ = serving_ || begins;
  return begins;
}

ServerGroup::Command ServerGroup::Ask(int member) {
  Member& m = Of(member);
  m.asked = ++requests_;
  ++m.unanswered;
  using Kind = MemberCommand::Kind;
  if (primary_ < 0 && m.held_at == 0) m.held_at = m.asked;
  return {member, {primary_ < 0 ? Kind::kHold : Kind::kReport, m.asked, ""}};
}

std::vector<ServerGroup::Command> ServerGroup::Ping() {
  std::vector<Command> commands;
  for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
    if (Of(m).running) commands.push_back(Ask(m));
  }
  return commands;
}

int ServerGroup::LimitOf(int member) const {
  TD_REQUIRE(member >= 0 && static_cast<size_t>(member) < members_.size());
  const bool ends = member == primary_ && handing_over_;
  if (ends || members_[static_cast<size_t>(member)].closed) return kUnansweredMaxEnd;
  // A member that must stop following may have to end a write before it answers.
  const bool holds = members_[static_cast<size_t>(member)].held_at != 0;
  if (holds || (member == primary_ && !serving_)) {
    return std::max(kUnansweredMaxBegin, options_.unanswered_max);
  }
  return options_.unanswered_max;
}

bool ServerGroup::Hangs(int member) const {
  const int limit = LimitOf(member);
  const Member& m = members_[static_cast<size_t>(member)];
  return m.running && (m.answered || m.closed) && m.unanswered > limit;
}

bool ServerGroup::PushesWait() const {
  if (!serving_ || !options_.quorum) return false;
  const auto has = [](const Member& m) {
    return m.running && m.report && m.report->has_state && m.report->complete;
  };
  const auto complete = static_cast<size_t>(std::ranges::count_if(members_, has));
  return has(members_[static_cast<size_t>(primary_)]) && complete < 1 + members_.size() / 2;
}

std::string ServerGroup::AwaitedOf(const Member& member) const {
  if (!member.running) return "does not run";
  if (member.closed) return "ends";
  const MemberReport* const newest = serving_ && member.report ? &*member.report : Vote(member);
  if (newest == nullptr) return "has not replied";
  if (newest->complete) return "";
  return newest->has_state ? "has an incomplete state" : "has no state";
}

std::string ServerGroup::Awaited() const {
  TD_REQUIRE(!serving_ || PushesWait());
  if (!refused_.empty()) return "no member can become the primary";
  if (primary_ >= 0 && !serving_) return absl::StrFormat("member %d becomes the primary", primary_);
  std::string text;
  for (size_t m = 0; m < members_.size(); ++m) {
    const std::string why = AwaitedOf(members_[m]);
    if (why.empty()) continue;
    absl::StrAppendFormat(&text, "%smember %d %s", text.empty() ? "" : ", ", m, why);
  }
  return text.empty() ? "the choice is under way" : text;
}

const MemberReport* ServerGroup::Vote(const Member& member) const {
  const bool votes = member.running && member.report && member.report->number >= election_from_;
  return votes ? &*member.report : nullptr;
}

std::vector<ServerGroup::Command> ServerGroup::Next() {
  if (!refused_.empty()) return Refuse();
  if (primary_ >= 0) return serving_ ? Gather() : AppointAgain();
  std::vector<Command> commands;
  for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
    if (Of(m).running && Of(m).asked < election_from_) commands.push_back(Ask(m));
  }
  const std::vector<Command> choice = Choose();
  commands.insert(commands.end(), choice.begin(), choice.end());
  return commands;
}

std::vector<ServerGroup::Command> ServerGroup::Gather() {
  TD_REQUIRE(serving_);
  std::vector<Command> commands;
  for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
    if (m == primary_ || !Of(m).running || Of(m).follows != 0) continue;
    Of(m).follows = ++requests_;
    commands.push_back({m, {MemberCommand::Kind::kFollow, Of(m).follows, ""}});
  }
  return commands;
}

std::vector<ServerGroup::Command> ServerGroup::Choose() {
  size_t votes = 0, with_state = 0, lost = 0;
  int best = -1, first = -1;
  uint64_t term = term_;
  // A member that has handed over to a standby with the same state is chosen last.
  const auto rank = [this](int member, const MemberReport& report) {
    return std::make_pair(KeyOf(report), member != handed_over_);
  };
  for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
    const MemberReport* const vote = Vote(Of(m));
    if (vote == nullptr) continue;
    ++votes;
    if (first < 0) first = m;
    term = std::max(term, vote->term);
    if (!vote->has_state || !vote->complete) continue;
    lost += Of(m).HasLostEntries();
    ++with_state;
    if (best >= 0 && Of(best).report->history != vote->history) {
      refused_ = absl::StrFormat(
          "members %d and %d of pserver %d have states of different jobs [TD4030]; hint: use the "
          "directories of one job for all members",
          best, m, index_);
      return Refuse();
    }
    if (best < 0 || rank(m, *vote) > rank(best, *Of(best).report)) best = m;
  }
  const size_t all = members_.size(), needed = options_.quorum ? all - all / 2 : 1;
  // For the first choice, waits for the votes of all members. Otherwise the group might not know
  // the term of a slow member that has the latest term, and could use this term a second time.
  if ((choices_ == 0 || !options_.quorum) && votes < all) return {};
  // A state with the term 0 is from an earlier job in which the server had no standbys. If only one
  // member has such a state, and no other member has a state, it is the latest state.
  const bool alone = votes == all && with_state == 1 && Of(best).report->term == 0;
  // A member whose disk has lost entries counts only after all other members have reported.
  const size_t known = votes < all ? with_state - lost : with_state;
  if (known >= needed || alone) {
    const uint64_t skipped = choices_ == 0 ? options_.terms_skipped : 0;
    term = (term / kTermStride + 1 + skipped) * kTermStride;
    return Appoint(best, {MemberCommand::Kind::kPromote, term, ""});
  }
  if (votes < all) return {};
  if (with_state == 0 && !had_state_) {
    return Appoint(first, {MemberCommand::Kind::kBegin, 0, ""});
  }
  refused_ = absl::StrFormat(
      "%d of %d members of pserver %d have its complete state, but %d are needed to know all "
      "acknowledged pushes [TD4030]; hint: put the directories of the other members back, or start "
      "the job from a checkpoint",
      with_state, all, index_, needed);
  return Refuse();
}

std::vector<ServerGroup::Command> ServerGroup::Appoint(int member, const MemberCommand& command) {
  TD_REQUIRE(primary_ < 0);
  primary_ = member;
  ++choices_;
  term_ = std::max(term_, command.number);
  appointment_ = command;
  appointment_lost_ = true;
  return AppointAgain();
}

std::vector<ServerGroup::Command> ServerGroup::AppointAgain() {
  TD_REQUIRE(primary_ >= 0 && !serving_);
  if (!std::exchange(appointment_lost_, false)) return {};
  appointed_after_ = requests_;
  return {{primary_, appointment_}};
}

std::vector<ServerGroup::Command> ServerGroup::Refuse() {
  TD_REQUIRE(!refused_.empty());
  std::vector<Command> commands;
  for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
    if (!Of(m).running || std::exchange(Of(m).refused, true)) continue;
    commands.push_back({m, {MemberCommand::Kind::kRefuse, 0, refused_}});
  }
  return commands;
}

bool ServerGroup::CanAcknowledge() const {
  const auto running = std::ranges::count_if(members_, [](const Member& m) { return m.running; });
  return static_cast<size_t>(running) >= 1 + members_.size() / 2;
}

bool ServerGroup::IsWhole() const {
  return std::ranges::all_of(members_, [](const Member& m) {
    return m.running && m.report && m.report->has_state && m.report->complete;
  });
}

}  // namespace tandem::deploy
