// The options of a client of parameter servers, and the record that describes a finished call.
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

// The transport of pushes and pulls. All other calls use gRPC. Results are bit-identical with every
// transport.
enum class PsTransport : uint8_t {
  kAuto,  // shared memory to servers on this host, gRPC to all other servers
  kGrpc,
  // Shared memory to all servers. If a server does not support shared memory, Configure fails and
  // names the server.
  kShm
};

// A finished call to one server, including its retries.
struct PsCall {
  int server = 0;
  rpc::PserverCall call = rpc::PserverCall::kPush;
  Time begin, end;
  size_t sent = 0, received = 0;  // size of the request and of the reply in bytes
  bool ok = true;
  // Data from the reply to a push or a pull: the server's version, and four times on the server's
  // clock in microseconds (receipt of the request, reply, begin and end of the newest update). 0:
  // unknown.
  struct Server {
    uint64_t version = 0;
    bool values = false;  // the reply contained parameters
    int64_t received_us = 0, answered_us = 0, update_begin_us = 0, update_end_us = 0;
  };
  Server at_server = {};

  const char* method() const { return rpc::NameOf(call); }
};

struct PsSecurity {
  std::string secret;  // the job's secret; empty: the client does not prove a secret
  rpc::TlsFiles tls;
  // true: servers at network addresses need no TLS, so an attacker in the network can read and
  // change all data. false: Connect fails with PERMISSION_DENIED for such servers without TLS.
  bool insecure_allow_network = false;
};

struct PsPatience {
  // Time limit for the start of the servers and for the arrival of the initial values.
  Duration start_timeout = std::chrono::seconds(60);
  Duration step_timeout = std::chrono::seconds(60);  // time limit of pushes, pulls and barriers
  // Time by which pushes, pulls and barriers wait longer than step_timeout. During this time, the
  // launcher can kill and restart an unresponsive process that on_silent reported.
  Duration replace_timeout = Duration::zero();
  // true: Connect blocks until all servers reply; false: returns immediately.
  bool wait_for_servers = true;
  int retries = 3;  // maximum number of retries of a call after the connection is lost

  // Time limit of a push, a pull or a barrier.
  Duration call_timeout() const { return step_timeout + replace_timeout; }
};

// Options of a cache of pulled table rows (row_cache.h). A cached row is reused if it is at most
// `versions` versions older than a reference version: with PullCondition::exactly, the requested
// version; otherwise, the version in the server's last reply to a pull of rows.
struct PsRowCacheOptions {
  size_t bytes = 0;  // memory of the cache in bytes; 0: no cache
  // Maximum age of a reused row in versions. 0: a row is reused only if PullCondition::exactly is
  // set and the row has the requested version.
  uint64_t versions = 0;
};

// Settings that must be the same for all trainers of a job.
struct PsJobRules {
  // Names and values of settings, by ascending names. Servers reject a trainer whose settings
  // differ from those of the other trainers.
  Agreement settings;
  PsNonfinite nonfinite = PsNonfinite::kReject;
  // A trainer is lost if it makes no call for this time. In kASync mode, other trainers do not wait
  // for a lost trainer until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // kASync: steps are positions in the trainer's data. Each server accepts each step of this
  // trainer once, also if a new incarnation repeats it (FirstStep in client.h). If rows or slices
  // move, a step must be one push.
  bool each_step_once = false;
  // kASync: the strength s of the delay compensation. A gradient g of a slice becomes g + s * g * g
  // * (w - v), where w is the current value and v is the value that the trainer pulled last.
  double delay_compensation = 0;
};

// Functions that the client calls. Each function may be null.
struct PsCallbacks {
  // Called about once a second while Connect waits: "waiting for pserver 1 (127.0.0.1:1234) (12 s
  // of 60 s)".
  std::function<void(const std::string&)> on_wait;
  // Polled several times a second while Connect waits. If the function returns true, Connect
  // returns CANCELLED.
  std::function<bool()> stop;
  // Polled several times a second, on the waiting thread, while a blocking function waits for a
  // server. If `interrupted` returns true, the function returns CANCELLED. The calls to servers
  // continue until they end or the client is destroyed.
  std::function<bool()> interrupted;
  // Called about once a second while a call waits for a server that has not replied for
  // step_timeout. `silent`: time since the last reply of the server. Runs on a gRPC thread and must
  // not block.
  std::function<void(int server, Duration silent)> on_silent;
  // Called at the end of each call, before the callback of the call. Runs on a gRPC thread and must
  // not block.
  std::function<void(const PsCall&)> on_call;
};

struct PsOptions {
  std::string job = "job";
  int trainer = 0, trainers = 1;  // rank of this trainer, and number of trainers
  // Incarnation of this trainer, which must be higher at each start. 0: Configure chooses a number
  // above all incarnations of this trainer that the servers know.
  uint64_t incarnation = 0;
  PsSecurity security;
  PsPatience patience;
  PsTransport transport = PsTransport::kAuto;
  PartitionOptions partition;  // how variables are split; Connect sets the field `servers`
  // true: each slice is a separate message; false: one message to each server has all its slices.
  bool split_messages = false;
  PsRowCacheOptions row_cache;
  PsJobRules rules;
  PsCallbacks callbacks;
};

}  // namespace tandem::ps
