// Pulls rows of tables from the servers that own the rows. Can cache rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/codec/tensor_codec.h"
#include "pserver/client/calls.h"
#include "pserver/client/client.h"
#include "pserver/client/job/job_tables.h"
#include "pserver/client/request_filler.h"
#include "pserver/client/row_cache.h"

namespace tandem::ps {

// Pulls rows of tables. Thread-safe. The arguments of the constructor must outlive this object.
class RowPuller {
 public:
  struct Parts {
    Caller& caller;
    const PsOptions& options;
    Placement& placement;
    RequestFiller& requests;
    const JobTables& tables;
    RowCache* cache;  // null: rows are not cached
  };
  explicit RowPuller(const Parts& parts) : parts_(parts) {}

  // Implements PsClient::PullRows.
  void Pull(PullCondition when, std::vector<PsRows> rows, PsClient::DoneVersion done);

 private:
  struct RowsPart;
  struct Attempts;
  // Splits the pull into one part for each server that owns rows. Returns the parts by server.
  StatusOr<std::map<size_t, std::shared_ptr<RowsPart>>> Split(const std::vector<PsRows>& rows,
                                                              PullCondition when);
  // Sends all parts. If rows have moved, splits the pull again and sends the new parts.
  void Send(std::shared_ptr<Attempts> pull);
  void OnEnd(const std::shared_ptr<Attempts>& pull, bool moved, size_t gone,
             StatusOr<uint64_t> version);
  // Copies cached rows that are new enough for `when` to their destinations, and removes these rows
  // from `part`.
  void TakeCached(size_t server, PullCondition when, RowsPart& part);
  void PutIntoCache(size_t server, const RowsPart& part, const codec::CodedPullReply& reply);
  static StatusOr<codec::CodedPullReply> TakeRows(const RowsPart& part, codec::Fragments message);

  // Data from the newest reply of a server to a pull of rows.
  struct LastReply {
    uint64_t incarnation = 0, version = 0;
  };
  const Parts parts_;
  Mutex mu_;
  // By server: data from the newest reply.
  std::map<size_t, LastReply> last_replies_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
