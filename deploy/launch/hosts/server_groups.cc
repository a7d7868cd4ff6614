#include "deploy/launch/hosts/server_groups.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::deploy {
namespace {

using Kind = JobOrder::Kind;

constexpr int kPingSeconds = 1;
// Time of a wait after which, and then again, the user is warned.
constexpr Duration kWarnEvery = std::chrono::seconds(10);

std::string NameOf(int server, int member) {
  return absl::StrFormat("pserver %d (member %d)", server, member);
}

}  // namespace

ServerGroups::ServerGroups(std::vector<ServerPlace> places, const ServerGroup::Options& options)
    : places_(std::move(places)) {
  int index = 0;
  for (const ServerPlace& place : places_) {
    TD_REQUIRE(place.hosts.size() == place.addresses.size());
    groups_.emplace_back(index++, static_cast<int>(place.hosts.size()), options);
  }
}

bool ServerGroups::Has(int server, int member) const {
  return server >= 0 && static_cast<size_t>(server) < groups_.size() && member >= 0 &&
         static_cast<size_t>(member) < places_[static_cast<size_t>(server)].hosts.size();
}

int ServerGroups::HostOf(int server, int member) const {
  TD_REQUIRE(Has(server, member));
  return places_[static_cast<size_t>(server)].hosts[static_cast<size_t>(member)];
}

bool ServerGroups::IsOn(int host, int server, int member) const {
  return Has(server, member) && HostOf(server, member) == host;
}

int ServerGroups::MembersOn(int host) const {
  int count = 0;
  for (const ServerPlace& place : places_) {
    count += static_cast<int>(std::ranges::count(place.hosts, host));
  }
  return count;
}

int ServerGroups::PrimaryHost(int server) const {
  TD_REQUIRE(Has(server, 0));
  const ServerGroup& group = GroupOf(server);
  return group.serving() ? HostOf(server, group.primary()) : -1;
}

bool ServerGroups::CanAcknowledge() const {
  return std::ranges::all_of(groups_, [](const ServerGroup& g) { return g.CanAcknowledge(); });
}

bool ServerGroups::IsWhole(int server) const {
  TD_REQUIRE(Has(server, 0));
  return GroupOf(server).IsWhole();
}

std::string ServerGroups::ObstacleToPromotion(int server, int restarts, int max_restarts) const {
  if (!Has(server, 0) || !GroupOf(server).serving()) {
    return "it has no primary with standbys now";
  }
  const ServerGroup& group = GroupOf(server);
  if (killed_.contains({server, group.primary()})) return "its primary was killed a moment ago";
  if (group.handing_over()) return "its primary hands over to a standby now";
  bool standby = false;
  for (int m = 0; Has(server, m); ++m) standby = standby || (m != group.primary() && group.runs(m));
  if (!standby) return "no standby is running";
  // The killed members that have not ended yet need a restart too.
  const int used = restarts + static_cast<int>(killed_.size());
  if (used < max_restarts) return "";
  return absl::StrFormat(
      "the old primary needs a restart, and %d of %d restarts are used (--max_restarts)", used,
      max_restarts);
}

std::vector<AddressedOrder> ServerGroups::Take(const MemberNews& news) {
  TD_REQUIRE(Has(news.server, news.member));
  ServerGroup& group = GroupOf(news.server);
  Orders orders;
  switch (news.kind) {
    case MemberNews::Kind::kStarted:
      // The end of the previous process may be unknown if the host was replaced.
      if (group.runs(news.member)) group.OnEnded(news.member);
      killed_.erase({news.server, news.member});
      group.OnStarted(news.member);
      break;
    case MemberNews::Kind::kClosed:
      if (group.runs(news.member)) group.OnClosed(news.member);
      break;
    case MemberNews::Kind::kState:
      if (!group.OnReport(news.member, news.state)) break;
      const std::string how = absl::StrFormat("term %d", group.term());
      const std::string name = NameOf(news.server, news.member);
      const JobOrder order{.kind = Kind::kPrimary, .process = name, .text = how};
      orders.push_back({HostOf(news.server, news.member), order});
      if (!group.replaced()) break;
      JobOrder note{.kind = Kind::kNote};
      note.shown = absl::StrFormat("%s is the primary now (%s)", name, how);
      orders.push_back({AddressedOrder::kAll, std::move(note)});
  }
  Send(news.server, group.Next(), orders);
  return orders;
}

std::vector<AddressedOrder> ServerGroups::OnEnded(int server, int member) {
  TD_REQUIRE(Has(server, member));
  killed_.erase({server, member});
  Orders orders;
  GroupOf(server).OnEnded(member);
  Send(server, GroupOf(server).Next(), orders);
  return orders;
}

std::vector<AddressedOrder> ServerGroups::LoseHost(int host) {
  Orders orders;
  for (int s = 0; Has(s, 0); ++s) {
    for (int m = 0; Has(s, m); ++m) {
      if (HostOf(s, m) != host) continue;
      const Orders added = OnEnded(s, m);
      orders.insert(orders.end(), added.begin(), added.end());
    }
  }
  return orders;
}

std::vector<AddressedOrder> ServerGroups::Promote(int server) {
  TD_REQUIRE(Has(server, 0) && GroupOf(server).serving());
  Orders orders;
  ServerGroup& group = GroupOf(server);
  if (group.quorum()) {
    Kill(server, group.primary(), "replaced", "tandem promote", 0, orders);
    return orders;
  }
  // The primary may have acknowledged pushes that no standby has yet, and would be chosen again.
  JobOrder note{.kind = Kind::kNote};
  note.shown = absl::StrFormat("tandem promote: %s hands over to a standby",
                               NameOf(server, group.primary()));
  orders.push_back({AddressedOrder::kAll, std::move(note)});
  Send(server, {group.HandOver()}, orders);
  return orders;
}

std::vector<AddressedOrder> ServerGroups::Step(Time now) {
  Orders orders;
  if (empty() || now < next_ping_) return orders;
  next_ping_ = now + std::chrono::seconds(kPingSeconds);
  for (int s = 0; Has(s, 0); ++s) {
    Send(s, GroupOf(s).Ping(), orders);
    KillHanging(s, orders);
    WarnOfWaits(s, now, orders);
  }
  return orders;
}

void ServerGroups::Send(int server, const std::vector<ServerGroup::Command>& commands,
                        Orders& orders) const {
  for (const ServerGroup::Command& c : commands) {
    JobOrder order{.kind = Kind::kMember};
    order.server = server;
    order.server_member = c.member;
    order.command = c.command;
    if (c.command.kind == MemberCommand::Kind::kFollow) {
      const auto primary = static_cast<size_t>(GroupOf(server).primary());
      order.command.text = places_[static_cast<size_t>(server)].addresses[primary];
    }
    orders.push_back({HostOf(server, c.member), std::move(order)});
  }
}

void ServerGroups::Kill(int server, int member, const char* event, const std::string& why,
                        int seconds, Orders& orders) {
  if (!killed_.insert({server, member}).second) return;
  orders.push_back({HostOf(server, member),
                    {.kind = Kind::kKill,
                     .process = NameOf(server, member),
                     .number = seconds,
                     .event = event,
                     .text = why}});
}

void ServerGroups::KillHanging(int server, Orders& orders) {
  TD_REQUIRE(Has(server, 0));
  const ServerGroup& group = GroupOf(server);
  for (int m = 0; Has(server, m); ++m) {
    if (!group.Hangs(m)) continue;
    const int limit = group.LimitOf(m);
    Kill(server, m, "silent",
         absl::StrFormat("no reply to more than %d requests of tandemrun", limit),
         kPingSeconds * limit, orders);
  }
}

void ServerGroups::WarnOfWaits(int server, Time now, Orders& orders) {
  TD_REQUIRE(Has(server, 0));
  const ServerGroup& group = GroupOf(server);
  if (group.serving() && !group.PushesWait()) {
    waits_.erase(server);
    return;
  }
  Wait& wait = waits_.try_emplace(server, Wait{now, now}).first->second;
  if (now - wait.warned < kWarnEvery) return;
  wait.warned = now;
  const double seconds = Seconds(now - wait.since);
  JobOrder order{.kind = Kind::kNote};
  order.shown = group.serving()
                    ? absl::StrFormat("warning: pushes to pserver %d have waited for %.0f s: %s",
                                      server, seconds, group.Awaited())
                    : absl::StrFormat("warning: pserver %d has had no primary for %.0f s: %s",
                                      server, seconds, group.Awaited());
  orders.push_back({AddressedOrder::kAll, std::move(order)});
}

}  // namespace tandem::deploy
