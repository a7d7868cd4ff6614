// Chooses the primaries of all servers that have standbys, on all hosts of a job, without processes
// and clocks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/hosts/job_messages.h"
#include "deploy/launch/hosts/server_group.h"

namespace tandem::deploy {

// The members of one server with standbys, by number.
struct ServerPlace {
  std::vector<int> hosts;  // number of the host of each member
  // Address of each member, as "HOST:PORT" or "unix:/PATH". Members of one host may share it.
  std::vector<std::string> addresses;
};

// Has a ServerGroup for each server. Its orders go to the hosts of the members. Not thread-safe.
class ServerGroups {
 public:
  // `places`: one for each server of the job, or none if the servers have no standbys.
  ServerGroups(std::vector<ServerPlace> places, const ServerGroup::Options& options);

  bool empty() const { return groups_.empty(); }
  bool Has(int server, int member) const;
  // Returns whether member `member` of server `server` is on this host.
  bool IsOn(int host, int server, int member) const;
  // Returns the number of members on this host.
  int MembersOn(int host) const;
  // Returns the host of the serving primary; -1: there is none now. REQUIRES: Has(server, 0).
  int PrimaryHost(int server) const;
  // Returns whether enough members of each server run to acknowledge pushes.
  bool CanAcknowledge() const;
  // Returns whether all members run and have the complete state. REQUIRES: Has(server, 0).
  bool IsWhole(int server) const;
  // Returns why a standby cannot become the primary now; "": it can. The job has made `restarts`
  // restarts, and may make `max_restarts`.
  std::string ObstacleToPromotion(int server, int restarts, int max_restarts) const;

  // Takes a message about a member. REQUIRES: Has(news.server, news.member).
  std::vector<AddressedOrder> Take(const MemberNews& news);
  // The process of a member has ended. REQUIRES: Has(server, member).
  std::vector<AddressedOrder> OnEnded(int server, int member);
  // A host is lost with all its members.
  std::vector<AddressedOrder> LoseHost(int host);
  // Kills the primary, so that a standby replaces it. REQUIRES: ObstacleToPromotion is "".
  std::vector<AddressedOrder> Promote(int server);
  // Requests a report of each member once per second, and kills members that do not reply.
  std::vector<AddressedOrder> Step(Time now);
  // Returns the time of the next Step; Time::max(): no Step is needed.
  Time wakeup() const { return empty() ? Time::max() : next_ping_; }

 private:
  using Orders = std::vector<AddressedOrder>;
  using MemberKey = std::pair<int, int>;  // number of the server, number of the member
  ServerGroup& GroupOf(int server) { return groups_[static_cast<size_t>(server)]; }
  const ServerGroup& GroupOf(int server) const { return groups_[static_cast<size_t>(server)]; }
  int HostOf(int server, int member) const;
  void Send(int server, const std::vector<ServerGroup::Command>& commands, Orders& orders) const;
  void Kill(int server, int member, const char* event, const std::string& why, int seconds,
            Orders& orders);
  void KillHanging(int server, Orders& orders);
  // Warns every kWarnEvery while a server has no primary, or while pushes wait for its members.
  void WarnOfWaits(int server, Time now, Orders& orders);

  const std::vector<ServerPlace> places_;
  std::vector<ServerGroup> groups_;
  std::set<MemberKey> killed_;  // members that were ordered killed and have not ended
  Time next_ping_{};
  struct Wait {
    Time since, warned;
  };
  std::map<int, Wait> waits_;  // the waits for members, by server
};

}  // namespace tandem::deploy
