// Servers with a log, and their replicas, in one process, and a client that pushes rows.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pserver/client/reader.h"
#include "pserver/replica.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {

inline constexpr Duration kPatience = std::chrono::seconds(20);
inline const ps::PsTable kTable = {"emb", 1000, 4, ps::PsTable::InitKind::kUniform,
                                   -0.1f, 0.1f, 1, ""};

class ReplicaTest : public PserverTest {
 protected:
  PserverOptions OptionsOf(const std::string& name, int index = 0) const {
    PserverOptions options;
    options.job = "job";
    options.index = index;
    options.log_bytes_max = log_bytes_max_;
    options.data_dir = dir_ + "/" + name;
    options.cold_dir = dir_ + "/cold-" + name;
    options.durability = Durability::kLogged;
    options.shm_rpc = false;
    return options;
  }
  void StartPrimary(const std::string& name, int index = 0) {
    auto primary = Pserver::Start(OptionsOf(name, index), metrics_);
    ASSERT_TRUE(primary.ok()) << primary.status();
    endpoints_.push_back(ToString((*primary)->endpoint()));
    servers_.push_back(*std::move(primary));
  }
  std::unique_ptr<Replica> ReplicaOf(const std::string& primary, const std::string& name,
                                     int index = 0) {
    auto replica = Replica::Start(OptionsOf(name, index), *ParseEndpoint(primary), metrics_);
    CHECK(replica.ok()) << replica.status();
    return *std::move(replica);
  }
  // Waits until the replica listens and has the log up to `entry`. Returns its address.
  static std::string Await(const Replica& replica, uint64_t entry) {
    const Time until = SteadyNow() + kPatience;
    while (SteadyNow() < until) {
      if (replica.endpoint() && replica.progress().position.last >= entry) {
        return ToString(*replica.endpoint());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the replica does not catch up: " << replica.progress().status;
    return "";
  }
  static std::unique_ptr<ps::Reader> ReaderOf(const std::vector<std::string>& servers) {
    auto reader = ps::Reader::Connect(servers, {.timeout = kPatience});
    CHECK(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  // Pushes ones to two rows.
  void PushRows(ps::PsClient& client, uint64_t step, int64_t id) {
    const std::vector<int64_t> ids = {id, id + 1};
    const std::vector<float> ones(8, 1.0f);
    Answer<Status> answer;
    client.Push(step, 0.1f, {}, answer.Callback(), {{"emb", ids, ones.data()}});
    const Status status = answer.Get();
    ASSERT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<ps::PsClient> TableClient() {
    auto client = *Client(0, 1);
    CHECK(client->Configure({}, ps::PsMode::kASync, {"adagrad", {}}, {kTable}).ok());
    CHECK(client->InitOrFetch({}).ok());
    return client;
  }
  uint64_t log_bytes_max_ = uint64_t{256} << 20;
};

}  // namespace tandem::pserver
