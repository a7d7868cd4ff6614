// Reads rows of tables and dense variables of a job, without being one of its trainers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/tables/row_buckets.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::ps {

// A reader. The servers of a job are its pservers, or one replica of each (tandem-pserver
// --replica_of). Thread-safe. All functions block (ReaderOptions::timeout).
class Reader {
 public:
  struct Rows {
    int64_t dim = 0;
    std::vector<float> values;  // [ids, dim], in the order of the ids
    // Version of each server from which values were read, in updates; 0: no values were read from
    // it. The values of one server are of one version.
    std::vector<uint64_t> versions;
  };
  struct Dense {
    std::map<std::string, std::vector<float>> variables;  // by name: all elements, flattened
    std::vector<uint64_t> versions;                       // as in Rows
  };

  // The lowest versions with which a read is content, by the index of the server, in updates. Rows
  // and Dense have such versions, so a later read with them sees no older values (monotonic reads).
  // One version is that of all servers, as in sync mode. Empty: the newest values, without a wait.
  using MinVersions = std::vector<uint64_t>;

  // Connects to the servers of a job. `servers`: their addresses in any order, such as
  // "127.0.0.1:7000". UNAVAILABLE, DEADLINE_EXCEEDED: a server does not reply. INVALID_ARGUMENT: an
  // address is invalid.
  static StatusOr<std::unique_ptr<Reader>> Connect(const std::vector<std::string>& servers,
                                                   const ReaderOptions& options);
  ~Reader();

  // Reads rows of a table. An absent row has its initial values (or zeros, if the rules of the
  // table delay the creation of rows); the read does not create it. `ids`: at most
  // 4 Mi, and at most 1 GiB of values from one server. NOT_FOUND:
  // the job has no such table. OUT_OF_RANGE: none of the servers serves some rows until the time
  // limit.
  // Waits until each server has the version in `least`, at most until the time limit
  // (DEADLINE_EXCEEDED). An error of a server names the server.
  StatusOr<Rows> ReadRows(const std::string& table, std::span<const int64_t> ids,
                          const MinVersions& least = {});
  // Reads all dense variables. UNAVAILABLE: a part of a variable moves between servers.
  // OUT_OF_RANGE: the job has tables, and none of the servers serves some of their rows until the
  // time limit. In this case, variables might be missing too.
  // Waits for versions, and names servers, as ReadRows does.
  StatusOr<Dense> ReadDense(const MinVersions& least = {});

 private:
  struct Call;
  Reader(ReaderOptions options, const std::vector<std::string>& servers,
         std::unique_ptr<PsChannel> channel);
  // INVALID_ARGUMENT: the number of versions is wrong.
  Status CheckVersions(const MinVersions& least) const;
  // Asks all servers which row buckets they serve.
  Status FindOwners(Time deadline);
  // Waits before a read is repeated because rows have moved. CANCELLED: ReaderOptions::stop.
  Status Pause();
  // Returns whether the servers serve some row buckets, but not all.
  bool LacksOwners() const;
  Status PullFrom(std::vector<std::shared_ptr<Call>>& calls, const MinVersions& least,
                  Time deadline);
  // Waits for `done`, which the calls in progress set when they end. Calls `cancel` to end them if
  // ReaderOptions::stop returns true.
  void Await(PsEvent& done, const std::function<void()>& cancel);

  const ReaderOptions options_;
  const size_t servers_;
  std::vector<std::string> names_;  // names of the servers in messages
  const std::unique_ptr<PsChannel> channel_;
  mutable Mutex mu_;
  // By row bucket: index of its server; -1: no server serves it now.
  std::array<int, kRowBuckets> owners_ TD_GUARDED_BY(mu_){};
};

}  // namespace tandem::ps
