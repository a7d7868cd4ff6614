// The options of a client of parameter servers, and the record of a call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/pserver_call.h"
#include "common/tables/update_policy.h"
#include "pserver/client/placement/partition.h"

namespace tandem::ps {

using PsNonfinite = NonfinitePolicy;

// The transport of pushes and pulls; all other calls use gRPC. Results are bit-identical with every
// transport.
enum class PsTransport : uint8_t {
  kAuto,  // shared memory to servers on this host, gRPC to others
  kGrpc,
  kShm  // shared memory; Configure fails and names the server if it is not possible
};

// A call to one server, including its retries.
struct PsCall {
  int server = 0;
  rpc::PserverCall call = rpc::PserverCall::kPush;
  Time begin, end;
  size_t sent = 0, received = 0;  // bytes of the messages
  bool ok = true;
  // For replies to pushes and pulls: the server's version, and times by the server's clock (receipt
  // of the call, reply, and newest update). 0: none.
  struct Server {
    uint64_t version = 0;
    bool values = false;  // the reply contained parameters
    int64_t received_us = 0, answered_us = 0, update_begin_us = 0, update_end_us = 0;
  };
  Server at_server = {};

  const char* method() const { return rpc::NameOf(call); }
};

struct PsSecurity {
  std::string secret;  // the job's secret; empty: no secret is proved
  rpc::TlsFiles tls;
  // Allows servers at network addresses without TLS, where an attacker on the path can read and
  // change all data. Otherwise Connect fails with PERMISSION_DENIED.
  bool insecure_allow_network = false;
};

struct PsPatience {
  Duration start_timeout = std::chrono::seconds(60);  // for servers and initial values
  Duration step_timeout = std::chrono::seconds(60);   // for pushes, pulls and barriers
  // Pushes, pulls and barriers wait this much longer. In this time, an unresponsive process can be
  // killed and restarted, because on_silent reports it.
  Duration replace_timeout = Duration::zero();
  bool wait_for_servers = true;  // Connect returns when all servers reply; false: immediately
  int retries = 3;               // maximum retries of a call after a connection loss

  // Time limit of a push, a pull or a barrier.
  Duration call_timeout() const { return step_timeout + replace_timeout; }
};

// A cache of pulled rows of tables (row_cache.h). A row is reused if it is at most `versions` older
// than a reference version. With PullCondition::exactly that is the requested version, otherwise
// the version seen by the last pull of rows.
struct PsRowCacheOptions {
  size_t bytes = 0;       // 0: no cache
  uint64_t versions = 0;  // 0: only rows of the requested version, and without `exactly` none
};

// Must be the same for all trainers of a job.
struct PsJobRules {
  // Job settings that are compared nowhere else, ascending. Servers reject trainers with other
  // settings.
  Agreement settings;
  PsNonfinite nonfinite = PsNonfinite::kReject;
  // A trainer without a call for this time is lost. kASync: others continue without it until it
  // calls again.
  Duration lost_after = std::chrono::seconds(900);
  // kASync: a gradient g of a slice becomes g + this * g * g * (w - value that its trainer pulled
  // last).
  double delay_compensation = 0;
};

// Each may be empty.
struct PsCallbacks {
  // Called about once a second while Connect waits: "waiting for pserver 1 (127.0.0.1:1234) (12 s
  // of 60 s)".
  std::function<void(const std::string&)> on_wait;
  // Polled several times a second while Connect waits; true cancels it (CANCELLED).
  std::function<bool()> stop;
  // Called about once a second while a call waits for a server that has not replied for
  // step_timeout. `silent`: time without a reply. Runs on a gRPC thread and must not block.
  std::function<void(int server, Duration silent)> on_silent;
  // Called at the end of each call, before the caller's callback. Runs on a gRPC thread and must
  // not block.
  std::function<void(const PsCall&)> on_call;
};

struct PsOptions {
  std::string job = "job";
  int trainer = 0, trainers = 1;  // rank, and number of trainers
  // Must grow with each start of this trainer. 0: Configure chooses a value above those that the
  // servers know for this trainer.
  uint64_t incarnation = 0;
  PsSecurity security;
  PsPatience patience;
  PsTransport transport = PsTransport::kAuto;
  bool crc32c = false;         // checksums for all tensors, in both directions
  PartitionOptions partition;  // `servers` is set by Connect
  // Sends each slice as a separate message; otherwise one message goes to each server.
  bool split_messages = false;
  PsRowCacheOptions row_cache;
  PsJobRules rules;
  PsCallbacks callbacks;
};

}  // namespace tandem::ps
