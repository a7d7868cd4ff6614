// Follows the changes of a table of a running job, without being one of its trainers
// (docs/internals/change-stream.md).
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/codec/row_values.h"
#include "common/tables/row_buckets.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"
#include "pserver/client/follow/followed_buckets.h"
#include "pserver/client/follow/reply_inbox.h"
#include "pserver/client/follow/server_finder.h"

namespace tandem {
class ChangeToken;
class FetchChangesReply;
}  // namespace tandem

namespace tandem::ps {

struct FollowOptions {
  std::string table;
  // Position at which the follower continues: a value of TableFollower::token(). "": from all rows.
  std::string token;
  // Minimum time from a request to the next one to a server that had no more changes. The changes
  // of this time are sent together.
  Duration interval = std::chrono::milliseconds(20);
  // Time for which a server holds a request until it has changes, at most 60 s. 0: it replies at
  // once.
  Duration wait = std::chrono::seconds(1);
  // Bytes of rows from which on a server adds no more rows to a reply. At most 16 MiB.
  uint32_t bytes_max = uint32_t{4} << 20;
  // Row buckets [bucket_begin, bucket_end) (RowBucket) that are followed.
  int bucket_begin = 0, bucket_end = kRowBuckets;
  // Rows whose score (TableRules) is lower when they are read count as rows that do not exist. The
  // score of a row is compared when the row changes, not when it decays. nullopt: all rows.
  std::optional<float> score_min;
  // How values travel. TableChange::values are f32 in each case, with the error of the format
  // (common/codec/row_values.h).
  codec::RowFormat format = codec::RowFormat::kF32;
};

// Changes on one server. A program that applies all changes in order has the rows of the table.
struct TableChange {
  size_t server = 0;     // index of the server in the list of addresses
  uint64_t version = 0;  // the values are of this version of the server, in updates
  // `ids` has all rows of these row buckets (RowBucket). Earlier rows of these buckets that are not
  // in `ids` do not exist any more.
  std::vector<int> replaced;
  // true: this follower began without a token and has not sent the replaced buckets before, so the
  // caller has no earlier rows of them.
  bool first = false;
  int64_t dim = 0;
  std::vector<uint64_t> ids;      // rows that are new or changed; each once
  std::vector<float> values;      // [ids, dim]
  std::vector<uint64_t> removed;  // rows that do not exist any more
  // true: with this change, the follower has all rows as of the newest reply of every server.
  bool current = false;
};

// A follower. The servers of a job are its pservers, or one replica of each. It learns the address
// of a pserver that joins the job later from the others, and follows it too. A follower that is
// slow gets the newest values of rows that changed several times, and never holds up training. It
// has at most one reply of each server in memory. Not thread-safe: one thread uses a follower.
class TableFollower {
 public:
  // Connects to the servers of a job. Blocks for at most ReaderOptions::timeout. `servers`: their
  // addresses in any order. UNAVAILABLE, DEADLINE_EXCEEDED: a server does not reply.
  // INVALID_ARGUMENT: an address is invalid, or the token is not one of this job and table.
  static StatusOr<std::unique_ptr<TableFollower>> Connect(const std::vector<std::string>& servers,
                                                          const ReaderOptions& options,
                                                          FollowOptions follow);
  // Like Connect, over a channel to these servers that does not repeat calls. Does not block.
  static StatusOr<std::unique_ptr<TableFollower>> Over(std::unique_ptr<PsChannel> channel,
                                                       const std::vector<std::string>& servers,
                                                       const ReaderOptions& options,
                                                       FollowOptions follow);
  ~TableFollower();

  // Returns the next change; nullopt: there was none for `timeout`. Blocks. The first changes are
  // all rows of the table, unless the follower has a token. After an error, Next may be called
  // again. Errors:
  // - NOT_FOUND: the job has no such table. FAILED_PRECONDITION, UNIMPLEMENTED: the table cannot be
  //   followed. UNAUTHENTICATED, PERMISSION_DENIED: the secret or the certificate is wrong.
  // - UNAVAILABLE, DEADLINE_EXCEEDED: a server has not replied for ReaderOptions::timeout.
  //   OUT_OF_RANGE: none of the servers has served some row buckets for this time.
  // - CANCELLED: ReaderOptions::stop returned true.
  StatusOr<std::optional<TableChange>> Next(Duration timeout);

  // Returns the position after the last change that Next returned, as bytes. A
  // program that has applied all changes up to it can continue there, in another process too.
  std::string token() const;

 private:
  struct Server;
  struct Reply;

  TableFollower(const std::vector<std::string>& servers, ReaderOptions options,
                FollowOptions follow, std::unique_ptr<PsChannel> channel);
  void SendRequests();
  void SendRequest(size_t server);
  void LearnServers();  // follows the servers that joined the job
  // Handles the oldest reply. nullopt: there is none, or it has no change for the caller.
  StatusOr<std::optional<TableChange>> TakeReply();
  Status TakeError(Server& server, const Status& error);
  // `values`: the decoded values of the reply.
  StatusOr<TableChange> Accept(size_t server, const FetchChangesReply& reply,
                               const std::vector<float>& values);
  // Begins the first position of a server, from the token if it has one.
  void Begin(size_t server, const FetchChangesReply& reply);
  bool IsCurrent() const;
  Time NextRequest() const;
  // Returns the error of a server, or the lack of a server, that has lasted for too long.
  Status CheckPatience();

  const ReaderOptions options_;
  const FollowOptions follow_;
  const std::unique_ptr<PsChannel> channel_;
  const std::shared_ptr<ReplyInbox<Reply>> inbox_;
  // Positions of the token whose servers have not replied yet.
  const std::unique_ptr<ChangeToken> token_;
  std::vector<std::unique_ptr<Server>> servers_;
  FollowedBuckets buckets_;
  bool was_current_ = false;
  std::bitset<kRowBuckets> sent_;      // buckets of which the caller may have rows
  std::optional<Time> unowned_since_;  // no server serves some buckets since this time
  ServerFinder finder_;
};

}  // namespace tandem::ps
