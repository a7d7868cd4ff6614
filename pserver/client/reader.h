// Reads rows of tables and dense variables of a job, without being one of its trainers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/tables/row_buckets.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"

namespace tandem::ps {

// A reader. The servers of a job are its pservers, or one replica of each (tandem-pserver
// --replica_of). The reader also reads from servers that joined the job later, if rows or slices
// have moved to them. It learns their addresses from the named servers. Thread-safe. All functions
// block (ReaderOptions::timeout).
class Reader {
 public:
  struct Rows {
    int64_t dim = 0;
    std::vector<float> values;  // [ids, dim], in the order of the ids
    // Version of each server from which values were read, in updates; 0: no values were read from
    // it. The named servers come first, then those that joined, in the order in which the reader
    // learned of them. The values of one server are of one version.
    std::vector<uint64_t> versions;
  };
  struct Dense {
    std::map<std::string, std::vector<float>> variables;  // by name: all elements, flattened
    std::vector<uint64_t> versions;                       // as in Rows
  };

  // The lowest versions with which a read is content, by the index of the server, in updates. Rows
  // and Dense have such versions, so a later read with them sees no older values (monotonic reads).
  // One version is that of all servers, as in sync mode, unless the reader has one named server. A
  // server that the reader learned of after these versions has none. Empty: the newest values,
  // without a wait.
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
  // Reads all dense variables. UNAVAILABLE: parts of variables move between servers until the time
  // limit. OUT_OF_RANGE: the job has tables, and none of the servers serves some of their rows
  // until the time limit. In this case, variables might be missing too. Waits for versions, and
  // names servers, as ReadRows does.
  StatusOr<Dense> ReadDense(const MinVersions& least = {});

 private:
  struct Call;
  struct MapAnswer;
  // The owners of rows and slices at one time, and the servers to read from.
  struct Owners {
    // By row bucket: index of its server; -1: no server serves it now.
    std::array<int, kRowBuckets> rows{};
    uint64_t map_version = 0;  // BucketMap::version
    // Every slice that has moved is served by its owner.
    bool has_slices = true;
    std::vector<int> servers;  // the named servers, and the others that own a bucket
    size_t known = 0;          // number of servers that the reader knows
  };
  Reader(ReaderOptions options, const std::vector<std::string>& servers,
         std::unique_ptr<PsChannel> channel);
  // INVALID_ARGUMENT: the number of versions is wrong.
  Status CheckVersions(const MinVersions& least) const;
  // Asks the servers which buckets they serve, also those that joined.
  Status FindOwners(Time deadline);
  std::vector<MapAnswer> AskForMaps(const std::vector<int>& servers, Time deadline);
  // Takes the replies, and adds the servers that joined. Returns whether one of these must be asked
  // too.
  StatusOr<bool> TakeMaps(const std::vector<int>& asked, const std::vector<MapAnswer>& answers);
  // Returns the index of the server with the number `number` in the job, which joined it. Adds the
  // server if it is new.
  StatusOr<int> Joined(int number, const std::string& address) TD_REQUIRES(mu_);
  Owners Now() const;
  std::string NameOf(int server) const;
  // Returns the minimum version of a server; 0: none.
  uint64_t Least(const MinVersions& least, int server) const;
  // Waits before a read is repeated because rows have moved. CANCELLED: ReaderOptions::stop.
  Status Pause();
  // Reads all dense variables once. nullopt: slices have moved meanwhile.
  StatusOr<std::optional<Dense>> TryReadDense(const MinVersions& least, Time deadline);
  Status PullFrom(std::vector<std::shared_ptr<Call>>& calls, const MinVersions& least,
                  Time deadline);
  // Waits for `done`, which the calls in progress set when they end. Calls `cancel` to end them if
  // ReaderOptions::stop returns true.
  void Await(PsEvent& done, const std::function<void()>& cancel);

  const ReaderOptions options_;
  const size_t named_;  // number of named servers
  const std::unique_ptr<PsChannel> channel_;
  mutable Mutex mu_;
  std::vector<std::string> names_ TD_GUARDED_BY(mu_);  // names of the servers in messages
  std::map<int, int> joined_ TD_GUARDED_BY(mu_);       // by number in the job: index of the server
  Owners owners_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
