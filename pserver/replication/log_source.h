// The primary's side of replication: sends the write-ahead log and the checkpoint to standby
// servers, and counts which entries they have stored.
//
// A standby asks for the entries after the last entry that it has stored. The request is therefore
// also its acknowledgement, as in Kafka's replication (Wang et al., "Building a Replicated Logging
// System with Apache Kafka", VLDB 2015). A term has the role of the term in Raft (Ongaro and
// Ousterhout, USENIX ATC 2014): entries of two logs with the same term and number are equal.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/replication/state_history.h"
#include "pserver/replication/write_times.h"
#include "pserver/state/wal.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

inline constexpr int kReplica = -1;

// A request of a standby or replica (FetchLogRequest in proto/pserver.proto).
struct LogFetch {
  // Number of the standby, other than LogSource::Options::member; kReplica: a replica, which keeps
  // a copy for readers. No acknowledgement waits for a replica. Its incarnation identifies it.
  int member = 0;
  uint64_t incarnation = 0;  // increases at each start of the standby
  LogTerm term;
  bool has_state = false;
  uint64_t after = 0;  // number of the last entry that the standby has stored
};
struct FetchedLog {
  LogTerm term;
  bool needs_checkpoint = false;
  uint64_t last = 0;  // number of the last entry that the primary has written
  // Encoded entries (pserver/wire/log_record.h) with the numbers after + 1, after + 2, ...
  std::vector<std::shared_ptr<const std::string>> entries;
};
struct CheckpointPart {
  LogTerm term;
  std::string record;   // a serialized ShardMeta; only at offset 0
  uint64_t bytes = 0;   // size of the file of values in bytes
  std::string content;  // content of the file from the requested offset
};
// A standby as its primary knows it. The lag is what the primary has written and the standby has
// not stored.
struct StandbyInfo {
  int member = 0;
  bool current = false;  // it has a state of the current term; false: it has no lag
  uint64_t stored = 0;   // number of the last entry that it has stored
  uint64_t lag_entries = 0;
  uint64_t lag_bytes = 0;  // a lower bound if the window lacks some of these entries
  // Upper bound of the age of the oldest of these entries (WriteTimes::Earliest). The age of an
  // entry from before this process began the term counts from there. 0: there is no such entry.
  Duration lag_time{};
  Duration silent{};  // time since its last request
};

// Thread-safe. Fetch blocks; its caller provides a thread for each standby.
class LogSource final : public StateHistory {
 public:
  struct Options {
    int standbys = 1;  // number of standbys
    // Number of this server among the server and its standbys, which have the numbers 0 to
    // `standbys`.
    int member = 0;
    // Called after each request with the number of the last entry that a majority of the servers
    // (this server and its standbys) has stored. The number may be lower than before. Called
    // without a lock.
    std::function<void(uint64_t)> on_replicated;
    // Writes a full checkpoint. Called if the newest checkpoint is a delta or `outdated`, or if a
    // standby would replace a state by it, which may have acknowledged entries after it.
    std::function<Status()> save;
    // Returns whether a new checkpoint is faster for a standby than the newest one with the entries
    // after it. null: never.
    std::function<bool()> outdated;
    // Time for which a request of a replica for a checkpoint waits for standbys.
    Duration replica_wait = std::chrono::seconds(1);
    // Maximum memory of entries that are kept for standbys. Older entries are read from the store.
    uint64_t window_bytes_max = uint64_t{64} << 20;
  };
  // All entries of `term` up to `last` also belong to the new term.
  struct Predecessor {
    LogTerm term;
    uint64_t last = 0;
    // true: this primary had more entries of that term before it was restarted, if a standby has
    // more. Such a standby must not lose them.
    bool restarted = false;
  };

  // `storage` must have files() and must outlive the source.
  LogSource(Options options, Storage& storage, const Clock& clock);
  ~LogSource() override;  // calls Close

  // Until BeginTerm or Resume, Fetch and FetchCheckpoint return UNAVAILABLE, because the state is
  // being replaced.
  void Pause();
  void Resume();  // the state was not replaced
  // Begins a term, which is higher than the last one. `last`: number of the last entry in the
  // store. Without `predecessor`, standbys must fetch the checkpoint again.
  void BeginTerm(const LogTerm& term, uint64_t last, std::optional<Predecessor> predecessor = {});
  // Adds entries that the store has written, by ascending numbers.
  void OnWritten(std::span<const LogEntry> entries);
  // Returns entries for a standby. Blocks until there is an entry or `deadline` has passed; returns
  // immediately if the standby needs the checkpoint. INVALID_ARGUMENT: no standby has this number.
  // FAILED_PRECONDITION: another process with a higher incarnation is this standby, or the standby
  // has a newer state than this server: a later term, another history, or entries that this server
  // has lost. UNAVAILABLE: the source is closed or paused.
  StatusOr<FetchedLog> Fetch(const LogFetch& request, Time deadline);
  // Returns a part of the newest checkpoint, at most 4 MiB. Offset 0 opens the newest checkpoint;
  // further offsets read the same file. NOT_FOUND: there is no checkpoint yet. FAILED_PRECONDITION:
  // as in Fetch, or no part with offset 0 was fetched before. RESOURCE_EXHAUSTED: too many replicas
  // follow. UNAVAILABLE: another call with offset 0 has not ended, or a replica asks, and a
  // majority does not have all entries yet.
  StatusOr<CheckpointPart> FetchCheckpoint(int member, uint64_t incarnation, uint64_t offset);

  // Waits until a majority of the server and its standbys has all entries and the state of the
  // current term, so that a promotion keeps them. Returns immediately if there are no standbys.
  // DEADLINE_EXCEEDED: this has not happened by `deadline`. UNAVAILABLE: the source is closed.
  Status AwaitStandbys(Time deadline);

  LogTerm term() const;
  bool AllReplicated() const;  // whether a majority has stored all entries in this term
  StatusOr<LogTerm> CurrentTerm() const override;
  bool Contains(const LogTerm& term, uint64_t number) const override;
  int standby_count() const { return options_.standbys; }
  std::vector<StandbyInfo> standbys() const;  // without replicas
  int replicas() const;  // number of replicas that have made a request in the last 10 s
  // Fails all later and waiting calls with UNAVAILABLE.
  void Close();

 private:
  struct Follower {
    uint64_t incarnation = 0;
    std::optional<uint64_t> stored;  // last stored entry of the current term; nullopt: none
    Time heard;
    // The checkpoint that the standby fetches; null: none.
    std::shared_ptr<const OpenedCheckpoint> checkpoint;
    LogTerm checkpoint_term;
    uint64_t checkpoint_last = 0;  // no later entry is in `checkpoint`
    std::string record;            // record of `checkpoint`
    Time opened = Time::min();     // time at which `checkpoint` was opened
    bool has_state = false;        // the standby would replace a state by the checkpoint
    uint64_t after = 0;            // number of the last entry of this state
    Time changed = Time::max();    // time at which `after` changed; max(): there is no state
  };
  // The newest checkpoint that was written because a standby or replica asked for one. It also
  // serves others that ask soon after.
  struct SharedCheckpoint {
    LogTerm term;       // term in which its write began
    Time began, ended;  // times of its write
  };

  Status CheckOpen() const TD_REQUIRES(mu_);
  StatusOr<Follower*> FollowerOf(int member, uint64_t incarnation) TD_REQUIRES(mu_);
  StatusOr<Follower*> ReplicaOf(uint64_t incarnation) TD_REQUIRES(mu_);
  // Refuses a standby whose state is newer than this server's. A replica may lose its state.
  Status CheckState(const LogFetch& request) const TD_REQUIRES(mu_);
  // Opens the newest checkpoint for a standby.
  Status OpenFor(int member, uint64_t incarnation, CheckpointPart* part);
  // Opens the newest checkpoint. Writes a new one before if the newest one is a delta or, unless
  // `recent`, if it is outdated or `renew` is set.
  StatusOr<OpenedCheckpoint> OpenNewest(const LogTerm& term, bool renew, bool recent);
  // Records the state of a request for which FollowerOf returned `follower`.
  void NoteState(const LogFetch& request, Follower* follower) const TD_REQUIRES(mu_);
  // Returns whether `follower` can use the checkpoint in saved_. `renew`: the follower is a standby
  // that would replace a state.
  bool IsRecent(const Follower& follower, bool renew) const TD_REQUIRES(mu_);
  // Returns whether a state with this term and this last entry is a beginning of this log.
  bool Continues(const LogFetch& request) const TD_REQUIRES(mu_);
  bool HasEntry(const LogTerm& term, uint64_t number) const TD_REQUIRES(mu_);
  // Number of the last entry that a majority has stored; 0: too few standbys have stored entries.
  uint64_t Replicated() const TD_REQUIRES(mu_);
  // Number of standbys that complete a majority together with this server.
  size_t Needed() const;
  // Returns whether Needed() standbys have a state of the current term.
  bool CountsMajority() const TD_REQUIRES(mu_);
  // Number of the last entry that the caller may receive. A replica receives only entries that no
  // promotion can take back.
  uint64_t LastFor(const LogFetch& request) const TD_REQUIRES(mu_);
  // Raises replicated_ to Replicated(), which it returns.
  uint64_t RaiseReplicated() TD_REQUIRES(mu_);
  void ForgetLostReplicas() TD_REQUIRES(mu_);
  // Waits until a majority has all entries up to `number`, Options::replica_wait at most.
  Status AwaitReplicated(uint64_t number) TD_REQUIRES(mu_);
  // Fills the lag of a standby that has stored all entries up to `stored`.
  void FillLag(uint64_t stored, StandbyInfo* info) const TD_REQUIRES(mu_);
  // Adds the entries from `after` + 1 to fetched->last from memory. Returns false if the memory
  // lacks the next entry.
  bool AddFromWindow(uint64_t after, FetchedLog* fetched) const TD_REQUIRES(mu_);
  // Adds entries after `after` from the store. Returns false if the store lacks the next entry, or
  // if an unfinished restore follows entry `after`.
  StatusOr<bool> AddFromStore(uint64_t after, FetchedLog* fetched) const;

  const Options options_;
  Storage& storage_;
  const Clock& clock_;
  mutable Mutex mu_;
  CondVar changed_;
  bool closed_ TD_GUARDED_BY(mu_) = false, paused_ TD_GUARDED_BY(mu_) = false;
  LogTerm term_ TD_GUARDED_BY(mu_);
  std::optional<Predecessor> predecessor_ TD_GUARDED_BY(mu_);
  uint64_t last_ TD_GUARDED_BY(mu_) = 0;     // number of the last written entry
  int awaiting_ TD_GUARDED_BY(mu_) = 0;      // number of calls of AwaitStandbys
  bool opening_ TD_GUARDED_BY(mu_) = false;  // a call opens the newest checkpoint
  std::optional<SharedCheckpoint> saved_ TD_GUARDED_BY(mu_);
  // Highest result of Replicated in this term; 0: not known yet.
  uint64_t replicated_ TD_GUARDED_BY(mu_) = 0;
  // The newest entries, which end at last_; empty while nothing follows.
  std::deque<std::shared_ptr<const std::string>> window_ TD_GUARDED_BY(mu_);
  uint64_t window_bytes_ TD_GUARDED_BY(mu_) = 0;
  WriteTimes write_times_ TD_GUARDED_BY(mu_);                 // when entries were written
  std::map<int, Follower> followers_ TD_GUARDED_BY(mu_);      // standbys, by number
  std::map<uint64_t, Follower> replicas_ TD_GUARDED_BY(mu_);  // by incarnation
};

}  // namespace tandem::pserver
