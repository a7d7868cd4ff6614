// The inside of PsClient. Includes protobuf: for .cc files of this folder only.
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

namespace tandem {

// The server answers in time with a better message than "deadline exceeded"; then it may.
inline constexpr Duration kGrace = std::chrono::seconds(2);

// Several calls that end as one: with the first error, or the lowest version.
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

// What one server gives, and where it goes.
struct PullPart {
  size_t server;
  PullRequest request;
  std::vector<float*> to;
  Time deadline = {};  // Time(): it was not sent yet
  int attempts = 0;
};
// What one server gives of tables: places of rows, by request.rows.
struct RowsPart {
  PullRequest request;
  std::vector<std::vector<float*>> to;
  std::vector<int64_t> dims;  // of the tables
};

// Where rows and slices are, as far as this client knows. Never changes.
struct PsPlacement {
  BucketMap map;
  std::vector<size_t> rows;           // owners by bucket; empty: there are no tables
  std::vector<size_t> blocks;         // owners
  std::vector<uint64_t> generations;  // by server: ExchangeMapReply's
  size_t OwnerOf(uint64_t id) const { return rows[static_cast<size_t>(RowBucket(id))]; }
  bool Owns(size_t server) const {
    return std::find(rows.begin(), rows.end(), server) != rows.end() ||
           std::find(blocks.begin(), blocks.end(), server) != blocks.end();
  }
  std::set<size_t> RowOwners() const { return {rows.begin(), rows.end()}; }
  // Null when this client has nothing there.
  size_t* Owner(int bucket) {
    const auto i = static_cast<size_t>(bucket);
    if (bucket < kRowBuckets) return i < rows.size() ? &rows[i] : nullptr;
    return i - kRowBuckets < blocks.size() ? &blocks[i - kRowBuckets] : nullptr;
  }
};

// PushReply's of proto/pserver.proto.
struct PushNumbers {
  uint64_t log_number = 0, kept_number = 0;
  bool pull_missing = false;
};

struct PsClient::Impl {
  struct Server {
    int index = 0;
    std::string address, name;   // name: "pserver 0 (127.0.0.1:1234)"
    std::vector<size_t> blocks;  // placed there by Configure
    std::atomic<uint64_t> sequence{0};
    // Of the first Report that it has not answered; Time(): none. Guarded by mu.
    Time asked;
    // What the last pulls of rows heard of it.
    std::atomic<uint64_t> incarnation{0}, version{0};
  };

  // Of a push, a pull, a barrier.
  Duration call_timeout() const { return options.step_timeout + options.replace_timeout; }

  // ---- client.cc
  void FillConfigure(const Server& server, PsMode mode, const PsOptimizer& optimizer,
                     ConfigureRequest* request) const;
  // A number above those that any server knows of this trainer, where the options have none.
  Status ChooseIncarnation();
  Status CheckStates(const std::vector<ConfigureReply>& replies, PsMode mode);
  // PsChannel::Call, with the server's name in errors, and with patience while the server waits for
  // pushes that it asks for again.
  void Send(const Server& server, const char* method, EncodedMessage request, Time deadline,
            PsChannel::Take take);
  // A small call, blocking.
  template <typename Reply>
  Status CallAndWait(const Server& server, const char* method,
                     const google::protobuf::MessageLite& request, Reply* reply, Duration timeout) {
    const auto taken = std::make_shared<Reply>();
    TD_RETURN_IF_ERROR(CallAndTake(server, method, request, taken, timeout));
    *reply = std::move(*taken);
    return OkStatus();
  }
  Status CallAndTake(const Server& server, const char* method,
                     const google::protobuf::MessageLite& request,
                     std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  // A call that was begun; `status` is set before `ended`.
  struct SmallCall {
    std::unique_ptr<PsEvent> ended;
    Status status;
  };
  std::shared_ptr<SmallCall> BeginCall(const Server& server, const char* method,
                                       const google::protobuf::MessageLite& request,
                                       std::shared_ptr<google::protobuf::MessageLite> reply,
                                       Time deadline);
  Status OpenLanes();
  void Close();

  // ---- client_transfer.cc
  // One for each server, or (split_messages) for each slice; a server that owns nothing of it has
  // none.
  StatusOr<std::vector<PushPart>> PushParts(const std::vector<PsConstTensor>& gradients,
                                            const std::vector<PsConstRows>& rows);
  StatusOr<std::vector<std::shared_ptr<PullPart>>> PullParts(const std::vector<PsTensor>& params,
                                                             PullCondition when) const;
  // Numbers the messages of one push, all at once, so that servers know which belong together
  // (PushRequest.sent of proto/pserver.proto).
  void Number(std::span<PushPart> parts);
  std::vector<uint64_t> Sent() const TD_REQUIRES(mu);  // by server
  // Of all messages of a push together: it began, behind `Sent` of then; and ended.
  using Outstanding = std::list<std::vector<uint64_t>>;
  Outstanding::iterator BeginPush();
  void EndPush(Outstanding::iterator push);
  void Place(size_t server, CodedPush& push) const;
  CodedPush Coded(const PushPart& part, uint64_t step, float learning_rate, std::string pull) const;
  struct PushGroup;
  // Sends `part`, which has its number, with `pull` (may be null); `done` gets the version of the
  // push, or of the pull. Rows that are elsewhere by now go there.
  void SendPush(PushPart& part, uint64_t step, float learning_rate, std::shared_ptr<PullPart> pull,
                std::shared_ptr<PushGroup> group, DoneVersion done);
  // Null: messages of the push that are refused have nothing to do with one another.
  std::shared_ptr<PushGroup> GroupOf(const std::vector<PushPart>& parts) const;
  void SendPull(std::shared_ptr<PullPart> part, DoneVersion done);
  // To where it belongs now, if that is elsewhere or `moved`.
  void PullElsewhere(std::shared_ptr<PullPart> part, bool moved, const Status& why,
                     DoneVersion done);
  // What is pulled, by its owners of now.
  std::map<size_t, std::shared_ptr<PullPart>> RepartitionPulls(
      const std::vector<std::shared_ptr<PullPart>>& pulls, const PsPlacement& now) const;
  // The block of `variable` that begins there.
  size_t BlockAt(const std::string& variable, int64_t offset) const;
  StatusOr<int> VariableIndex(const std::string& name, int64_t numel) const;
  Status SendInit(std::span<const PsTensor> params, uint64_t version, std::span<const PsSlot> slots,
                  const RowSource& rows);
  // client_rows.cc
  StatusOr<int> TableIndex(const std::string& name) const;
  void FillOwners();
  void FillTables(size_t server, ConfigureRequest* request) const;
  // Adds the rows to the parts of their servers; those of `all` get some of every table, or none.
  Status AppendRows(const std::vector<PsConstRows>& rows, const PsPlacement& now,
                    const std::set<size_t>& all, std::vector<PushPart>& parts);
  StatusOr<std::map<size_t, std::shared_ptr<RowsPart>>> RowsParts(const std::vector<PsRows>& rows,
                                                                  PullCondition when);
  Status MakeCache();
  // Takes rows that are kept and new enough out of the part; keeps those of an answer.
  void TakeKept(size_t server, PullCondition when, RowsPart& part);
  void Keep(size_t server, const RowsPart& part, const CodedPullReply& reply);
  // First rows of every table to one server.
  class InitRows;
  Status SendInitRows(size_t server, uint64_t version, std::span<const PsSlot> slots,
                      const RowSource& rows);
  // Pieces of a table, server after server.
  Status PullPages(const PsTable& table, bool slots, uint64_t min_version, const RowSink& take);
  // Returns early where `server` has left.
  Status PullBuckets(const PsTable& table, bool slots, uint32_t& bucket, uint32_t end,
                     const Server& server, const RowSink& take);
  StatusOr<bool> WaitForVersion(Server& server, uint64_t version);  // false: it has left
  // Until every server that has rows is there.
  Status WaitForRows(uint64_t version);

  // ---- client_moves.cc, client_push_moves.cc
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
  bool Meet(size_t index, const BucketMap& map) TD_REQUIRES(mu);  // false: its address is not known
  void Learn(size_t server, const BucketMapDef& map, uint64_t generation);
  // Tells these servers what is known and learns what they know; then `then`, even if they do not
  // answer.
  void Exchange(const std::set<size_t>& with, std::function<void()> then);
  Status ExchangeAndWait(int attempts);  // after a pause that is longer with each
  // What servers know that came to the running job.
  Status RefreshAddedServers();
  bool IsAdded(const Server& s) const { return static_cast<size_t>(s.index) >= servers.size(); }
  // It gave everything away, as far as this client knows: it may be stopped, and is not asked.
  bool HasLeft(const Server& s) const { return !owns_any(s) && Placement()->map.version() != 0; }
  // A small call to a server; false: it has left. It may leave, and be stopped, while the call is
  // under way: the other servers are asked about that once a second.
  StatusOr<bool> CallOwner(const Server& server, const char* method,
                           const google::protobuf::MessageLite& request,
                           std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  // ... with all servers, so many times: first everybody says what became of moves, then one hears
  // what others said.
  void ExchangeAll(std::set<size_t> also, int rounds, std::function<void()> then);
  // Once a second, as long as a call waits, all servers hear from this client, and it from them.
  // One that was started again may ask for what is kept, or not know how far this trainer is, and
  // hold up those for whom that call waits elsewhere; or it gave everything away and went for good,
  // and the call waits for it.
  void ReportLater();
  void Report();
  void BeginReport(bool end);  // or the end of all reports, until a call waits again
  // The end of a Report to a server, or of another exchange.
  void Answered(size_t server, const Status& status);
  std::set<size_t> OwnersOf(const PushPart& part, const PsPlacement& now) const;
  // Whether its server refuses it for ever, as is known now.
  bool IsStale(const PushPart& part, const PsPlacement& now) const;
  void SendOnce(std::shared_ptr<OnePush> push);
  void Redirect(std::shared_ptr<OnePush> push, const Status& why);
  void QueryNewOwner(std::shared_ptr<OnePush> push, const Status& why);
  // The pushes were refused for ever, or are asked about elsewhere: what is in them goes to where
  // it belongs now, under new numbers.
  StatusOr<std::vector<PushPart>> Repartition(const std::vector<std::shared_ptr<OnePush>>& pushes,
                                              const PsPlacement& now);
  void RepartitionPushes(const std::vector<std::shared_ptr<OnePush>>& pushes,
                         const PsPlacement& now);
  void Finish(OnePush& push, StatusOr<uint64_t> version);
  // The push ended, as one of its group.
  void Arrive(OnePush& push);
  // One of a group was refused.
  void Refused(const std::shared_ptr<OnePush>& push);
  // Asks all servers about moves, then sends what was refused meanwhile to where it belongs.
  void LookFor(const std::shared_ptr<PushGroup>& group);
  void SendRefused(const std::shared_ptr<PushGroup>& group);
  // Whether rows of `anew` could meet others of the group at a server.
  bool MustWait(const PushGroup& group, const std::vector<std::shared_ptr<OnePush>>& anew,
                const PsPlacement& now) const TD_REQUIRES(mu);
  void PullRowsOnce(std::shared_ptr<RowsPull> pull);

  // ---- client_replay.cc: servers with durability replayable
  struct ReplayRetryCall;
  void SendWithReplayRetry(std::shared_ptr<ReplayRetryCall> call);
  void TryAgain(std::shared_ptr<ReplayRetryCall> call);
  // Numbers the push, keeps it where that is asked for, and sends it, once there is room.
  void Begin(std::shared_ptr<OnePush> push);
  void SendKept(std::shared_ptr<OnePush> push);  // REQUIRES: room for it
  // Until nobody waits for room any more: gives up those who waited for too long, and has
  // checkpoints made.
  void MakeRoom();
  void Ended(const OnePush& push, const Status& status, const PushNumbers& numbers);
  void AskForCheckpoint(size_t server, uint64_t number);
  // Sends everything that is kept for this server once more, unless that is under way.
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
  std::map<size_t, std::unique_ptr<Server>> added TD_GUARDED_BY(mu);  // to the running job
  // Constant after Configure.
  bool sync = true;
  std::vector<PsVariable> variables;
  std::unordered_map<std::string, int> variable_index;
  std::vector<std::string> variable_names;
  std::vector<PsSlice> blocks;
  std::vector<std::vector<size_t>> blocks_of;  // by variable
  std::vector<PsTable> tables;
  std::vector<int64_t> push_widths;  // of tables: values of a row in a push
  std::unique_ptr<RowCache> cache;   // null: none
  std::vector<bool> initialised;     // by server, as Configure found it
  bool init_again = false;           // some have the first values (version 0), some have none

  int lanes = 0;                                                      // that Configure opened
  std::shared_ptr<WaitGroup> leases = std::make_shared<WaitGroup>();  // memory being sent
  mutable Mutex mu;
  std::shared_ptr<const PsPlacement> placement TD_GUARDED_BY(mu);
  std::map<std::string, uint64_t> barriers TD_GUARDED_BY(mu);  // generations
  Outstanding outstanding TD_GUARDED_BY(mu);                   // in the order of their begin

  bool reports = false;                    // constant after Configure: ReportLater is wanted
  mutable std::atomic<uint64_t> told = 0;  // the highest PullRequest.min_step
  std::atomic<int> waiting = 0;            // calls, and one for all pushes that are held
  std::atomic<bool> reporting = false, closing = false;

  std::unique_ptr<PushRetransmitBuffer> kept;  // made by Configure; null: no server asks for it
  std::deque<std::shared_ptr<OnePush>> held TD_GUARDED_BY(mu);  // until there is room
  std::set<size_t> asked TD_GUARDED_BY(mu);                     // servers for a checkpoint
  std::set<size_t> resent TD_GUARDED_BY(mu);  // servers for which SendAgain is under way
};

// The messages of a push of a sync step. A server takes rows of a table once a step from each
// trainer, so rows go to another server once it is known which of those that went there were
// refused. Nothing else is waited for: where a message was taken the answer may be what the step
// gives, which comes when all trainers made it.
struct PsClient::Impl::PushGroup {
  size_t coming = 0;                // messages that are not under way yet
  std::vector<OnePush*> under_way;  // each until it has arrived
  std::vector<std::shared_ptr<OnePush>> refused;
  bool looking = false;      // somebody asks what became of those
  int waits = 0;             // of those for some that are under way
  std::set<size_t> servers;  // to which rows of it went
};

// A push to one server, until it is taken there or cut anew.
struct PsClient::Impl::OnePush {
  PushPart part;
  uint64_t step = 0;
  float learning_rate = 0;
  std::shared_ptr<PullPart> pull;  // may be null
  DoneVersion done;
  Time deadline;
  int attempts = 0;
  std::shared_ptr<PushGroup> group = nullptr;  // may be null
  // IsStale, when it was sent. Then a refusal is for ever. Else the same bytes, which came late
  // once more, may have been taken behind it: they are sent again, under their number.
  bool stale = false;
};

// The server has not, or not yet, what it was asked for.
inline bool HasMoved(const Status& status) { return status.code() == StatusCode::kOutOfRange; }

// The pause before a call is made again; longer and longer, so that what takes its time is not
// asked about a thousand times.
Duration PauseOf(int attempts);
// The last part for that server; `room`: that has so many bytes free. A new one when there is none.
PushPart& PartOf(size_t server, size_t room, std::vector<PushPart>& parts);
bool IsGone(const Status& status);  // the server, or the connection to it
// Take apart the answer to a push with `pull` (null: none), to a pull of rows.
StatusOr<uint64_t> TakePushReply(const PullPart* pull, Fragments message, PushNumbers* numbers);
StatusOr<CodedPullReply> TakeRows(const RowsPart& part, Fragments message);

}  // namespace tandem
