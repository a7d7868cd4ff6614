// A simulated program that follows a table of a job. It runs the product's TableFollower, and
// stores the rows and the token on a disk that survives its death.
#pragma once

#include <bitset>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pserver/client/follow/table_follower.h"
#include "tests/sim/carrier.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/support/followed_rows.h"

namespace tandem::pserver {

// Not thread-safe. The program can be killed and started again any number of times.
class SimFollower {
 public:
  struct Options {
    std::string job, table;
    int node = 0;  // first node of the program in the network; each start takes another node
    std::vector<SimAddress*> servers;
    std::vector<std::string> addresses;  // addresses of `servers`
    // Returns the history of a server's log; 0: unknown (SimServer::log_term).
    std::function<uint64_t(size_t server)> log_history;
    // Whether the program always stores its rows and its token together. It must do so if a server
    // may lose acknowledged pushes with its power: the server accepts an earlier token, and the
    // program would keep rows of the lost pushes.
    bool stores_together = false;
  };
  // The rows of the row buckets that the program had from a server when it had all changes of the
  // server up to an entry of the server's log.
  struct State {
    std::bitset<kRowBuckets> held;
    RowMap rows;
  };
  SimFollower(Options options, SimWorld& world, SimNetwork& network);
  ~SimFollower() { Kill(); }

  void Start();
  void Kill();
  bool alive() const { return process_ != nullptr; }
  const std::string& table() const { return options_.table; }

  // Returns the rows that the program has in memory, or on its disk if it does not run.
  const RowMap& rows() const { return alive() ? followed_.rows : stored_.rows; }
  // Ids of all rows that the program has ever received.
  const std::set<uint64_t>& seen() const { return seen_; }
  // By number of the log entry. The newest content counts.
  const std::map<uint64_t, State>& states(size_t server) const { return states_[server]; }
  int64_t starts() const { return starts_; }
  int64_t continued() const { return continued_; }  // starts that had a token
  int64_t changes() const { return changes_; }
  int64_t removed() const { return removed_; }      // number of tombstones
  int64_t snapshots() const { return snapshots_; }  // changes that replaced row buckets

 private:
  struct Stored {
    RowMap rows;
    std::string token;
  };
  void Follow(const std::shared_ptr<SimProcess>& process);
  void Take(const ps::TableFollower& follower, const ps::TableChange& change);
  void NoteState(const std::string& token, const ps::TableChange& change);

  const Options options_;
  SimWorld& world_;
  SimNetwork& network_;
  std::shared_ptr<SimProcess> process_;  // null: the program does not run
  FollowedRows followed_;                // in memory
  Stored stored_;                        // on disk
  std::set<uint64_t> seen_;
  std::vector<std::map<uint64_t, State>> states_;  // by server
  int64_t starts_ = 0, continued_ = 0, changes_ = 0, removed_ = 0, snapshots_ = 0;
};

}  // namespace tandem::pserver
