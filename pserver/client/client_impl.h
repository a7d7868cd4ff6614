// The inside of PsClient. Includes protobuf: for .cc files of this folder only.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/tensor_codec.h"
#include "common/tensor/row_buckets.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier.h"
#include "pserver/client/client.h"
#include "pserver/client/leases.h"
#include "pserver/client/row_cache.h"

namespace tandem {

// Several calls that end as one: with the first error, or the lowest version.
class PsJoin {
 public:
  PsJoin(int calls, PsClient::DoneVersion done) : left_(calls), done_(std::move(done)) {}

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

// A push to one server, in as many messages as its size asks for.
struct PushPart {
  size_t server;
  std::vector<CodedSlice> slices;
  size_t bytes = 0;
};
// What one server gives, and where it goes.
struct PullPart {
  size_t server;
  PullRequest request;
  std::vector<float*> to;
};
// What one server gives of tables: places of rows, by request.rows.
struct RowsPart {
  PullRequest request;
  std::vector<std::vector<float*>> to;
  std::vector<int64_t> dims;  // of the tables
};

struct PsClient::Impl {
  struct Server {
    int index = 0;
    std::string address, name;   // name: "pserver 0 (127.0.0.1:1234)"
    std::vector<size_t> blocks;  // what it owns, indexes into blocks_
    std::atomic<uint64_t> sequence{0};
    // What the last pulls of rows heard of it.
    std::atomic<uint64_t> incarnation{0}, version{0};
  };

  // ---- client.cc
  void FillConfigure(const Server& server, PsMode mode, const PsOptimizer& optimizer,
                     ConfigureRequest* request) const;
  Status CheckStates(const std::vector<ConfigureReply>& replies, PsMode mode);
  // PsCarrier::Call, with the server's name in errors.
  void Send(const Server& server, const char* method, EncodedMessage request, Time deadline,
            PsCarrier::Take take);
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
  Status OpenLanes();
  void Close();

  // ---- client_transfer.cc
  // One for each server, or (split_messages) for each slice; a server that owns nothing of it has
  // none.
  StatusOr<std::vector<PushPart>> PushParts(const std::vector<PsConstTensor>& gradients,
                                            const std::vector<PsConstRows>& rows);
  StatusOr<std::vector<std::shared_ptr<PullPart>>> PullParts(const std::vector<PsTensor>& params,
                                                             PsWhen when) const;
  // Sends `part` with `pull` (may be null); `done` gets the version of the push, or of the pull.
  void SendPush(PushPart& part, uint64_t step, float learning_rate, std::shared_ptr<PullPart> pull,
                DoneVersion done);
  void SendPull(std::shared_ptr<PullPart> part, DoneVersion done);
  StatusOr<int> VariableIndex(const std::string& name, int64_t numel) const;
  Status SendInit(std::span<const PsTensor> params, uint64_t version, std::span<const PsSlot> slots,
                  const RowSource& rows);
  // client_rows.cc
  StatusOr<int> TableIndex(const std::string& name) const;
  void FillOwners();
  size_t ServerOf(uint64_t id) const { return owners[static_cast<size_t>(RowBucket(id))]; }
  void FillTables(size_t server, ConfigureRequest* request) const;
  // Adds the rows to the parts of their servers; every server gets some of every table, or none.
  Status AppendRows(const std::vector<PsConstRows>& rows, std::vector<PushPart>& parts) const;
  StatusOr<std::map<size_t, std::shared_ptr<RowsPart>>> RowsParts(const std::vector<PsRows>& rows,
                                                                  PsWhen when) const;
  Status MakeCache();
  // Takes rows that are kept and new enough out of the part; keeps those of an answer.
  void TakeKept(size_t server, PsWhen when, RowsPart& part);
  void Keep(size_t server, const RowsPart& part, const CodedPullReply& reply);
  // First rows of every table to one server.
  class InitRows;
  Status SendInitRows(size_t server, uint64_t version, std::span<const PsSlot> slots,
                      const RowSource& rows);
  // Pieces of a table, server after server.
  Status PullPages(const PsTable& table, bool slots, uint64_t min_version, const RowSink& take);
  Status WaitForVersion(Server& server, uint64_t version);
  void FillWhen(PsWhen when, PullRequest* request) const;
  Status FillSlots(std::span<const PsSlot> slots, const PsBlock& block,
                   InitParamsRequest* request) const;

  template <typename Request>
  void FillCaller(Request* request) const {
    request->set_job(options.job);
    request->set_trainer_id(static_cast<uint32_t>(options.trainer));
    request->set_incarnation(options.incarnation);
  }
  bool owns_any(const Server& server) const { return !server.blocks.empty() || !tables.empty(); }

  PsOptions options;
  std::unique_ptr<PsCarrier> carrier;
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<size_t> owners;  // the server of each bucket of rows
  // Constant after Configure.
  bool sync = true;
  std::vector<PsVariable> variables;
  std::unordered_map<std::string, int> variable_index;
  std::vector<std::string> variable_names;
  std::vector<PsBlock> blocks;
  std::vector<std::vector<size_t>> blocks_of;  // by variable
  std::vector<PsTable> tables;
  std::unique_ptr<RowCache> cache;  // null: none
  std::vector<bool> initialised;    // by server, as Configure found it
  bool init_again = false;          // some have the first values (version 0), some have none

  int lanes = 0;                                                    // that Configure opened
  std::shared_ptr<PsLeases> leases = std::make_shared<PsLeases>();  // memory being sent
  Mutex mu;
  std::map<std::string, uint64_t> barriers TD_GUARDED_BY(mu);  // generations
};

}  // namespace tandem
