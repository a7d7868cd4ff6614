// Executes the commands of one Redis client on the shard of a server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/metrics.h"
#include "common/rpc/audit_log.h"
#include "pserver/replication/log_follower.h"
#include "pserver/resp/resp_keys.h"
#include "pserver/resp/resp_limits.h"
#include "pserver/resp/resp_output.h"
#include "pserver/resp/resp_parser.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace tandem::pserver {

// The server on whose shard commands are executed. All pointers must outlive the sessions.
struct RespTarget {
  Shard* shard = nullptr;
  Deadlines* deadlines = nullptr;
  std::string secret;              // the job's secret; "": clients need no AUTH
  int index = 0;                   // number of the server in the job
  rpc::AuditLog* audit = nullptr;  // records AUTH and the commands that read; null: no audit log
  // Returns the progress of a replica; null: the server is no replica.
  std::function<LogFollower::Progress()> replica;
  RespLimits limits;
};

// The state that all sessions of a server share. Thread-safe.
struct RespShared {
  RespShared(RespTarget of, Metrics& metrics);

  const RespTarget target;
  RespMemory memory;
  std::atomic<size_t> connections = 0;  // accepted connections (RespSlot)
  Gauge& open_connections;
  Counter& commands;
  Counter& refused;  // replies that are errors, and rejected connections
};

// Counts one accepted connection while it exists.
class RespSlot {
 public:
  explicit RespSlot(std::shared_ptr<RespShared> shared);
  ~RespSlot();
  RespSlot(const RespSlot&) = delete;
  RespSlot& operator=(const RespSlot&) = delete;

 private:
  const std::shared_ptr<RespShared> shared_;
};

// The session of one connection. Not thread-safe.
class RespSession {
 public:
  enum class Step : uint8_t {
    kReplied,   // the reply is in the output
    kGathered,  // the reply follows when the caller calls Flush, or executes more commands before
    kFlush,     // the command was not executed: the caller must call Flush, then execute it again
    kWaiting,   // the reply follows: `wake` will be called, then the caller must call Resume
    kClose      // the reply is in the output; the connection ends after it
  };

  // `peer`: address of the client, for the audit log. `wake`: called on any thread, at most once
  // for each kWaiting; must not block.
  RespSession(std::shared_ptr<RespShared> shared, std::string peer, std::function<void()> wake);
  ~RespSession();  // ends the wait of a command; `wake` may still be called once

  // Executes a command. Appends the reply to `out`. All values of a reply are of one version. Reads
  // that follow each other are gathered and make one pull.
  Step Execute(const RespArguments& arguments, RespOutput& out);
  // Appends the replies to the gathered reads. Returns kReplied or kWaiting.
  Step Flush(RespOutput& out);
  // Returns the size of the replies to the gathered reads in bytes; 0: none are gathered.
  size_t gathered_bytes() const { return parts_.empty() ? 0 : keys_.reply_bytes(); }
  // Returns whether the command that waits has its result. `wake` may also be called for an earlier
  // wait, which GiveUp has ended.
  bool ready() const;
  // Continues after a wait, as Flush. REQUIRES: ready().
  Step Resume(RespOutput& out);
  // Ends a wait with an error, because it has lasted for RespLimits::reply_timeout. Continues as
  // Flush. REQUIRES: a command waits.
  Step GiveUp(RespOutput& out);
  // Returns whether the client may use commands: it has sent the secret, or the server has none.
  bool admitted() const { return admitted_; }

 private:
  using Handler = Step (RespSession::*)(const RespArguments&, RespOutput&);
  struct Command {
    std::string_view name;
    size_t least, most;  // numbers of arguments, with the name
    bool before_auth;
    bool gathers;
    Handler handler;
  };
  // A gathered read.
  struct Part {
    std::string_view command;
    bool array;   // the reply is an array, also for one key
    size_t keys;  // number of its keys
  };
  // A pull in progress. The shard and the session share it.
  struct Wait;

  static const Command* Find(std::string_view name);
  // Checks a command and calls its handler.
  Step Dispatch(const RespArguments& arguments, RespOutput& out);

  Step Auth(const RespArguments& arguments, RespOutput& out);
  Step Hello(const RespArguments& arguments, RespOutput& out);
  Step Ping(const RespArguments& arguments, RespOutput& out);
  Step Echo(const RespArguments& arguments, RespOutput& out);
  Step Select(const RespArguments& arguments, RespOutput& out);
  Step ListCommands(const RespArguments& arguments, RespOutput& out);
  Step Info(const RespArguments& arguments, RespOutput& out);
  Step Quit(const RespArguments& arguments, RespOutput& out);
  Step Get(const RespArguments& arguments, RespOutput& out);
  Step HashGet(const RespArguments& arguments, RespOutput& out);
  Step HashLength(const RespArguments& arguments, RespOutput& out);
  Step Exists(const RespArguments& arguments, RespOutput& out);
  Step HashExists(const RespArguments& arguments, RespOutput& out);

  // Checks a password and admits the client. Returns the error reply; "": the password is right.
  std::string Admit(std::string_view password);
  // Fills keys_ by `add`. `bytes_max`: maximum size of the values. If a name is unknown, reads the
  // names of the server and calls `add` again, with `fresh` true. REQUIRES: no read is gathered.
  Status Collect(size_t bytes_max, const std::function<Status(bool fresh)>& add);
  // Adds a read, whose keys `add` adds to keys_.
  Step Gather(bool array, const std::function<Status()>& add, RespOutput& out);
  Step Count(RespOutput& out);
  // Replies with `count` when the log has the rows that were counted.
  Step ReplyWhenLogged(size_t count, RespOutput& out);
  void FinishCount(const Wait& wait, RespOutput& out);
  // Reads the gathered reads that have no reply yet.
  Step ReadParts(RespOutput& out);
  // Starts a pull of `reading_` parts. Returns false if it waits.
  bool Pull(RespOutput& out);
  void Finish(Wait& wait, RespOutput& out);
  Step Refuse(const Status& status, RespOutput& out);
  void Note(std::string_view command, const Status& outcome);

  const std::shared_ptr<RespShared> shared_;
  const std::string peer_;
  const std::function<void()> wake_;
  bool admitted_;
  RespCatalog catalog_;  // as of the last unknown name, or of the last read of a dense variable
  RespKeys keys_;
  std::vector<Part> parts_;    // the gathered reads; their keys are in keys_, in this order
  size_t part_ = 0, key_ = 0;  // the first part without a reply, and its first key
  // Number of parts in the pull. It is 1 after a pull of several parts has failed, so that only the
  // commands that are wrong get an error.
  size_t reading_ = 0;
  std::string_view command_;  // name of the command in progress
  std::shared_ptr<Wait> waiting_;
};

}  // namespace tandem::pserver
