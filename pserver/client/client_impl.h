// The implementation of PsClient. Includes protobuf: only for .cc files of this directory.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/codec/tensor_codec.h"
#include "common/tensor/bucket_map.h"
#include "common/tensor/row_buckets.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/wait_group.h"
#include "pserver/client/client.h"
#include "pserver/client/push_retransmit_buffer.h"
#include "pserver/client/row_cache.h"

namespace tandem::ps {

using rpc::PserverCall;

// Extra time for a server to reply after its own deadline, because its message is better than
// "deadline exceeded".
inline constexpr Duration kGrace = std::chrono::seconds(2);

// Combines several calls into one callback, with the first error or the lowest version.
class FanInCallback {
 public:
  FanInCallback(int calls, PsClient::DoneVersion done) : left_(calls), done_(std::move(done)) {}

  void Arrive(StatusOr<uint64_t> version) {
    StatusOr<uint64_t> all;
    {
      MutexLock lock(mu_);
      if (!version.ok()) {
        if (status_.ok()) status_ = version.status();
      } else {
        version_ = std::min(version_, *version);
      }
      if (--left_ > 0) return;
      all = status_.ok() ? StatusOr<uint64_t>(version_) : status_;
    }
    done_(std::move(all));
  }

 private:
  Mutex mu_;
  int left_ TD_GUARDED_BY(mu_);
  Status status_ TD_GUARDED_BY(mu_);
  uint64_t version_ TD_GUARDED_BY(mu_) = UINT64_MAX;
  const PsClient::DoneVersion done_;
};

// A pull from one server, with the destinations of its values.
struct PullPart {
  size_t server;
  PullRequest request;
  std::vector<float*> to;
  Time deadline = {};  // Time(): not sent yet
  int attempts = 0;
};
// A pull of rows from one server: the destinations of rows, by request.rows.
struct RowsPart {
  PullRequest request;
  std::vector<std::vector<float*>> to;
  std::vector<int64_t> dims;  // by table
};

// The owners of rows and slices, as known to this client. Immutable.
struct PsPlacement {
  BucketMap map;
  std::vector<size_t> rows;           // owner by row bucket; empty: there are no tables
  std::vector<size_t> blocks;         // owner by slice
  std::vector<uint64_t> generations;  // by server: generation of ExchangeMapReply
  size_t OwnerOf(uint64_t id) const { return rows[static_cast<size_t>(RowBucket(id))]; }
  bool Owns(size_t server) const {
    return std::find(rows.begin(), rows.end(), server) != rows.end() ||
           std::find(blocks.begin(), blocks.end(), server) != blocks.end();
  }
  std::set<size_t> RowOwners() const { return {rows.begin(), rows.end()}; }
  // null: this client has nothing in the bucket.
  size_t* Owner(int bucket) {
    const auto i = static_cast<size_t>(bucket);
    if (bucket < kRowBuckets) return i < rows.size() ? &rows[i] : nullptr;
    return i - kRowBuckets < blocks.size() ? &blocks[i - kRowBuckets] : nullptr;
  }
};

// Fields of PushReply (proto/pserver.proto).
struct PushNumbers {
  uint64_t log_number = 0, kept_number = 0;
  bool pull_missing = false;
};

struct PsClient::Impl {
  struct Server {
    int index = 0;
    std::string address, name;   // name: "pserver 0 (127.0.0.1:1234)"
    std::vector<size_t> blocks;  // slices placed there by Configure
    std::atomic<uint64_t> sequence{0};
    // Start time of the first Report without a reply; Time(): none. Guarded by mu.
    Time asked;
    // Values of the last pulls of rows.
    std::atomic<uint64_t> incarnation{0}, version{0};
  };

  // Time limit of a push, a pull or a barrier.
  Duration call_timeout() const { return options.step_timeout + options.replace_timeout; }

  // ---- client.cc --------------------------------------------------------------------------------
  void FillConfigure(const Server& server, PsMode mode, const PsOptimizer& optimizer,
                     ConfigureRequest* request) const;
  // Chooses an incarnation above those that any server knows for this trainer, if the options set
  // none.
  Status ChooseIncarnation();
  Status CheckStates(const std::vector<ConfigureReply>& replies, PsMode mode);
  // Calls PsChannel::Call and adds the server's name to errors. Waits if the server is still
  // receiving retransmitted pushes.
  void Send(const Server& server, PserverCall method, codec::EncodedMessage request, Time deadline,
            PsChannel::Take take);
  // Makes a small call. Blocks.
  template <typename Reply>
  Status CallAndWait(const Server& server, PserverCall method,
                     const google::protobuf::MessageLite& request, Reply* reply, Duration timeout) {
    const auto taken = std::make_shared<Reply>();
    TD_RETURN_IF_ERROR(CallAndTake(server, method, request, taken, timeout));
    *reply = std::move(*taken);
    return OkStatus();
  }
  Status CallAndTake(const Server& server, PserverCall method,
                     const google::protobuf::MessageLite& request,
                     std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  // A call in progress; `status` is set before `ended`.
  struct SmallCall {
    std::unique_ptr<PsEvent> ended;
    Status status;
  };
  std::shared_ptr<SmallCall> BeginCall(const Server& server, PserverCall method,
                                       const google::protobuf::MessageLite& request,
                                       std::shared_ptr<google::protobuf::MessageLite> reply,
                                       Time deadline);
  Status OpenLanes();
  void Close();

  // ---- client_transfer.cc -----------------------------------------------------------------------
  // One part for each server or (split_messages) for each slice. A server without a slice of it
  // gets no part.
  StatusOr<std::vector<PushPart>> PushParts(const std::vector<PsConstTensor>& gradients,
                                            const std::vector<PsConstRows>& rows);
  StatusOr<std::vector<std::shared_ptr<PullPart>>> PullParts(const std::vector<PsTensor>& params,
                                                             PullCondition when) const;
  // Numbers the messages of one push together, so that servers know which messages belong together
  // (PushRequest.sent of proto/pserver.proto).
  void Number(std::span<PushPart> parts);
  std::vector<uint64_t> Sent() const TD_REQUIRES(mu);  // by server
  // Track all messages of one push from its begin to its end. The element is the result of Sent at
  // the begin.
  using Outstanding = std::list<std::vector<uint64_t>>;
  Outstanding::iterator BeginPush();
  void EndPush(Outstanding::iterator push);
  void Place(size_t server, codec::CodedPush& push) const;
  codec::CodedPush Coded(const PushPart& part, uint64_t step, float learning_rate,
                         std::string pull) const;
  struct PushGroup;
  // Sends `part`, which is already numbered, with `pull` (may be null). `done` receives the version
  // of the push or of the pull. If the rows have moved, sends them to their new owner.
  void SendPush(PushPart& part, uint64_t step, float learning_rate, std::shared_ptr<PullPart> pull,
                std::shared_ptr<PushGroup> group, DoneVersion done);
  // Null: rejected messages of the push are independent of each other.
  std::shared_ptr<PushGroup> GroupOf(const std::vector<PushPart>& parts) const;
  void SendPull(std::shared_ptr<PullPart> part, DoneVersion done);
  // Sends the pull to the current owner if the owner has changed or `moved` is set.
  void PullElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                     DoneVersion done);
  // Groups the pulled ranges by their current owners.
  std::map<size_t, std::shared_ptr<PullPart>> RepartitionPulls(
      const std::vector<std::shared_ptr<PullPart>>& pulls, const PsPlacement& now) const;
  // Index of the slice of `variable` that begins at `offset`.
  size_t BlockAt(const std::string& variable, int64_t offset) const;
  StatusOr<int> VariableIndex(const std::string& name, int64_t numel) const;
  Status SendInit(std::span<const PsTensor> params, uint64_t version, std::span<const PsSlot> slots,
                  const RowSource& rows);
  // ---- client_rows.cc ---------------------------------------------------------------------------
  StatusOr<int> TableIndex(const std::string& name) const;
  void FillOwners();
  void FillTables(size_t server, ConfigureRequest* request) const;
  // Adds the rows to the parts of their servers. Each server of `all` gets an entry for every
  // table, possibly without rows.
  Status AppendRows(const std::vector<PsConstRows>& rows, const PsPlacement& now,
                    const std::set<size_t>& all, std::vector<PushPart>& parts);
  StatusOr<std::map<size_t, std::shared_ptr<RowsPart>>> RowsParts(const std::vector<PsRows>& rows,
                                                                  PullCondition when);
  Status MakeCache();
  // TakeKept copies rows that are cached and new enough and removes them from the part. Keep stores
  // the rows of a reply in the cache.
  void TakeKept(size_t server, PullCondition when, RowsPart& part);
  void Keep(size_t server, const RowsPart& part, const codec::CodedPullReply& reply);
  // Sends the initial rows of every table to one server.
  class InitRows;
  Status SendInitRows(size_t server, uint64_t version, std::span<const PsSlot> slots,
                      const RowSource& rows);
  // Fetches a table in pieces, server by server.
  Status PullPages(const PsTable& table, bool slots, uint64_t min_version, const RowSink& take);
  // Returns early if `server` has left the job.
  Status PullBuckets(const PsTable& table, bool slots, uint32_t& bucket, uint32_t end,
                     const Server& server, const RowSink& take);
  // false: the server has left the job.
  StatusOr<bool> WaitForVersion(Server& server, uint64_t version);
  // Waits until every server that has rows reaches `version`.
  Status WaitForRows(uint64_t version);

  // ---- client_moves.cc, client_push_moves.cc ----------------------------------------------------
  struct OnePush;
  struct RowsPull {
    PullCondition when;
    std::vector<PsRows> rows;
    DoneVersion done;
    Time deadline;
    int attempts = 0;
  };
  std::shared_ptr<const PsPlacement> Placement() const;
  Server& ServerAt(size_t index);
  std::vector<Server*> AllServers();
  // false: the address of the server is unknown.
  bool Meet(size_t index, const BucketMap& map) TD_REQUIRES(mu);
  void Learn(size_t server, const BucketMapDef& map, uint64_t generation);
  // Exchanges bucket maps with these servers, then calls `then`, even if they do not reply.
  void Exchange(const std::set<size_t>& with, std::function<void()> then);
  Status ExchangeAndWait(int attempts);  // after a pause that grows with each attempt
  // Fetches the maps of servers that joined the running job.
  Status RefreshAddedServers();
  bool IsAdded(const Server& s) const { return static_cast<size_t>(s.index) >= servers.size(); }
  // Returns true if, as far as this client knows, the server gave all its buckets away. It may have
  // stopped, and the client does not call it.
  bool HasLeft(const Server& s) const { return !owns_any(s) && Placement()->map.version() != 0; }
  // Makes a small call to a server. Returns false if the server has left the job. A server may
  // leave and stop during the call; the client therefore checks with the other servers once a
  // second.
  StatusOr<bool> CallOwner(const Server& server, PserverCall method,
                           const google::protobuf::MessageLite& request,
                           std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  // Exchanges with all servers, `rounds` times. The first round collects what each server knows
  // about moves; a second round learns it from servers that were called too early in the first.
  void ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then);
  // While a call waits, exchanges with all servers once a second. A restarted server may need
  // retransmitted pushes. It may also not know the step of this trainer, and then block the
  // trainers for which the call waits at another server. Or the server gave everything away and
  // stopped, and the call would wait for it.
  void ReportLater();
  void Report();
  void BeginReport(bool end);  // `end`: ends all reports until a call waits again
  // Handles the end of a Report or of another exchange with a server.
  void Answered(size_t server, const Status& status);
  std::set<size_t> OwnersOf(const PushPart& part, const PsPlacement& now) const;
  // Whether, as known now, the server will always reject the part.
  bool IsStale(const PushPart& part, const PsPlacement& now) const;
  void SendOnce(std::shared_ptr<OnePush> push);
  void Redirect(std::shared_ptr<OnePush> push, const Status& why);
  void QueryNewOwner(std::shared_ptr<OnePush> push, const Status& why);
  // The server will never accept these pushes, or another server was called about them. Sends their
  // contents to the current owners under new numbers.
  StatusOr<std::vector<PushPart>> Repartition(const std::vector<std::shared_ptr<OnePush>>& pushes,
                                              const PsPlacement& now);
  void RepartitionPushes(const std::vector<std::shared_ptr<OnePush>>& pushes,
                         const PsPlacement& now);
  void Finish(OnePush& push, StatusOr<uint64_t> version);
  // Removes the ended push from its group.
  void Arrive(OnePush& push);
  // Handles the rejection of one push of a group.
  void Refused(const std::shared_ptr<OnePush>& push);
  // Exchanges maps with all servers, then sends the pushes that were rejected meanwhile to the new
  // owners.
  void LookFor(const std::shared_ptr<PushGroup>& group);
  void SendRefused(const std::shared_ptr<PushGroup>& group);
  // Whether rows of the given pushes could reach a server to which other pushes of the group are in
  // progress.
  bool MustWait(const PushGroup& group, const std::vector<std::shared_ptr<OnePush>>& anew,
                const PsPlacement& now) const TD_REQUIRES(mu);
  void PullRowsOnce(std::shared_ptr<RowsPull> pull);

  // ---- client_replay.cc: servers with durability=replayable -------------------------------------
  struct ReplayRetryCall;
  void SendWithReplayRetry(std::shared_ptr<ReplayRetryCall> call);
  void TryAgain(std::shared_ptr<ReplayRetryCall> call);
  // Numbers the push and keeps it if required. Sends it once there is room.
  void Begin(std::shared_ptr<OnePush> push);
  void SendKept(std::shared_ptr<OnePush> push);  // REQUIRES: there is room for it
  // Runs until no push waits for room: fails pushes that waited too long, and requests checkpoints.
  void MakeRoom();
  void Ended(const OnePush& push, const Status& status, const PushNumbers& numbers);
  void AskForCheckpoint(size_t server, uint64_t number);
  // Retransmits all kept pushes of this server, unless that is already in progress.
  struct Resending;
  void SendAgain(size_t server);
  void SendNext(const std::shared_ptr<Resending>& all);

  void FillWhen(PullCondition when, PullRequest* request) const;
  StatusOr<std::vector<PsSlot>> PullStateOnce();
  Status FillSlots(std::span<const PsSlot> slots, const PsSlice& block,
                   InitParamsRequest* request) const;

  template <typename Request>
  void FillCaller(Request* request) const {
    request->set_job(options.job);
    request->set_trainer_id(static_cast<uint32_t>(options.trainer));
    request->set_incarnation(options.incarnation);
  }
  bool owns_any(const Server& server) const {
    return Placement()->Owns(static_cast<size_t>(server.index));
  }

  PsOptions options;
  std::unique_ptr<PsChannel> carrier;
  std::vector<std::unique_ptr<Server>> servers;
  // Servers that joined the running job.
  std::map<size_t, std::unique_ptr<Server>> added TD_GUARDED_BY(mu);
  // Constant after Configure.
  bool sync = true;
  std::vector<PsVariable> variables;
  std::unordered_map<std::string, int> variable_index;
  std::vector<std::string> variable_names;
  std::vector<PsSlice> blocks;
  std::vector<std::vector<size_t>> blocks_of;  // by variable
  std::vector<PsTable> tables;
  std::vector<int64_t> push_widths;  // by table: values of a row in a push
  std::unique_ptr<RowCache> cache;   // null: no cache
  std::vector<bool> initialised;     // by server, as found by Configure
  bool init_again = false;  // some servers have the initial values (version 0), some have none

  int lanes = 0;                                                      // opened by Configure
  std::shared_ptr<WaitGroup> leases = std::make_shared<WaitGroup>();  // memory being sent
  mutable Mutex mu;
  std::shared_ptr<const PsPlacement> placement TD_GUARDED_BY(mu);
  std::map<std::string, uint64_t> barriers TD_GUARDED_BY(mu);  // generations
  Outstanding outstanding TD_GUARDED_BY(mu);                   // in order of their begin

  bool reports = false;                    // constant after Configure: ReportLater is needed
  mutable std::atomic<uint64_t> told = 0;  // highest PullRequest.min_step
  std::atomic<int> waiting = 0;            // number of waiting calls; all held pushes count as one
  std::atomic<bool> reporting = false, closing = false;

  std::unique_ptr<PushRetransmitBuffer> kept;  // created by Configure; null: no server needs it
  std::deque<std::shared_ptr<OnePush>> held TD_GUARDED_BY(mu);  // until there is room
  std::set<size_t> asked TD_GUARDED_BY(mu);   // servers that were asked for a checkpoint
  std::set<size_t> resent TD_GUARDED_BY(mu);  // servers with a SendAgain in progress
};

// The messages of one push of a sync step. A server accepts rows of a table only once per step and
// trainer. Rows can therefore go to another server only when it is known which messages to that
// server were rejected. The client waits for nothing else. An accepted message may get its reply
// only after all trainers have made the step.
struct PsClient::Impl::PushGroup {
  size_t coming = 0;                // messages not started yet
  std::vector<OnePush*> under_way;  // each until it has arrived
  std::vector<std::shared_ptr<OnePush>> refused;
  bool looking = false;      // a query about the rejected pushes is running
  int waits = 0;             // number of waits of rejected pushes for those in progress
  std::set<size_t> servers;  // servers to which rows of the group were sent
};

// A push to one server, until the server accepts it or the client repartitions it.
struct PsClient::Impl::OnePush {
  PushPart part;
  uint64_t step = 0;
  float learning_rate = 0;
  std::shared_ptr<PullPart> pull;  // may be null
  DoneVersion done;
  Time deadline;
  int attempts = 0;
  std::shared_ptr<PushGroup> group = nullptr;  // may be null
  // IsStale at the time of sending. If set, a rejection is final. Otherwise a delayed copy of the
  // same bytes may have been accepted after the rejection. The push is then sent again under the
  // same number.
  bool stale = false;
};

// The server does not have the requested data, or not yet.
inline bool HasMoved(const Status& status) { return status.code() == StatusCode::kOutOfRange; }

// The pause before the next attempt. It grows with the number of attempts, which limits the number
// of calls for slow operations.
Duration PauseOf(int attempts);
// Returns the last part for `server` if it has `room` bytes free; otherwise adds a new part.
PushPart& PartOf(size_t server, size_t room, std::vector<PushPart>& parts);
bool IsGone(const Status& status);  // the server or the connection is lost
// Parse the reply to a push with `pull` (null: none), and the reply to a pull of rows.
StatusOr<uint64_t> TakePushReply(const PullPart* pull, codec::Fragments message,
                                 PushNumbers* numbers);
StatusOr<codec::CodedPullReply> TakeRows(const RowsPart& part, codec::Fragments message);

}  // namespace tandem::ps
