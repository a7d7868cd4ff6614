// lookup_vs_redis: reads of rows with 64 values by a client of Redis, from a pserver in this
// process
// (--resp_listen) and from a Redis that has the same rows under the same keys. The same client
// sends the same bytes to both: batches of 10 MGET commands with 100 keys each, or of 1,000 GET
// commands, two batches in progress. All commands are encoded before the time is measured. For
// comparison, a client of Tandem pulls the same rows over shared memory and over gRPC, 10,000 rows
// at a time, two pulls in progress.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/os/fd.h"
#include "kernels/exec/comm.h"
#include "tests/bench/folder.h"
#include "tests/bench/ps_pair.h"
#include "tests/bench/report.h"
#include "tests/bench/rows_table.h"

namespace tandem::bench {
namespace {

constexpr size_t kWidth = 64;           // values of a row
constexpr size_t kHeldRows = 1 << 19;   // 128 MiB of values
constexpr size_t kBatches = 128;        // different batches
constexpr size_t kRowsOfBatch = 1000;   // rows that a batch reads
constexpr size_t kKeysOfCommand = 100;  // keys of an MGET
constexpr size_t kBytesOfRow = kWidth * sizeof(float);
constexpr size_t kLoadRows = 1000;  // rows of one command that fills Redis

using Ids = std::vector<int64_t>;

void AppendBulk(std::string_view text, std::string& command) {
  command += "$" + std::to_string(text.size()) + "\r\n";
  command += text;
  command += "\r\n";
}

std::string KeyOf(int64_t id) { return "emb:" + std::to_string(id); }

// The commands of a batch, and the number of keys of each.
struct Batch {
  std::string commands;
  size_t keys = 0;  // 0: GET, whose reply is no array
};

Batch MgetBatch(const Ids& ids) {
  Batch batch{"", kKeysOfCommand};
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % kKeysOfCommand == 0) {
      batch.commands += "*" + std::to_string(1 + kKeysOfCommand) + "\r\n$4\r\nMGET\r\n";
    }
    AppendBulk(KeyOf(ids[i]), batch.commands);
  }
  return batch;
}

Batch GetBatch(const Ids& ids) {
  Batch batch;
  for (const int64_t id : ids) {
    batch.commands += "*2\r\n$3\r\nGET\r\n";
    AppendBulk(KeyOf(id), batch.commands);
  }
  return batch;
}

// A client of RESP (https://redis.io/docs/reference/protocol-spec) with one connection.
class LookupClient {
 public:
  Status Connect(const Endpoint& server) {
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    sockaddr_in inet{};
    inet.sin_family = AF_INET;
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    inet.sin_port = htons(static_cast<uint16_t>(server.port));
    if (server.path.size() >= sizeof(path.sun_path)) {
      return InvalidArgument("%s is too long", server.path);
    }
    std::memcpy(path.sun_path, server.path.data(), server.path.size());
    fd_ = Fd(socket(server.is_unix() ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (!server.is_unix()) setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const auto* to = server.is_unix() ? reinterpret_cast<const sockaddr*>(&path)
                                      : reinterpret_cast<const sockaddr*>(&inet);
    if (connect(fd_.get(), to, server.is_unix() ? sizeof(path) : sizeof(inet)) == 0) {
      return OkStatus();
    }
    return Unavailable("%s: %s", ToString(server), ErrnoText(errno));
  }
  // Stores rows in Redis.
  Status Load(std::span<const int64_t> ids, const float* rows) {
    std::string command = "*" + std::to_string(1 + 2 * ids.size()) + "\r\n$4\r\nMSET\r\n";
    for (size_t i = 0; i < ids.size(); ++i) {
      AppendBulk(KeyOf(ids[i]), command);
      AppendBulk({reinterpret_cast<const char*>(rows + i * kWidth), kBytesOfRow}, command);
    }
    TD_RETURN_IF_ERROR(Send(command));
    std::string reply(5, '\0');
    TD_RETURN_IF_ERROR(Read(reply.data(), reply.size()));
    return reply == "+OK\r\n" ? OkStatus() : Internal("Redis replies \"%s\"", reply);
  }
  // Sends a batch. If two batches are in progress after that, receives the older one.
  Status Ask(const Batch& batch) {
    TD_RETURN_IF_ERROR(Send(batch.commands));
    keys_ = batch.keys;
    return ++in_progress_ < 2 ? OkStatus() : Receive();
  }
  Status AwaitAll() {
    while (in_progress_ > 0) TD_RETURN_IF_ERROR(Receive());
    return OkStatus();
  }
  std::span<const float> out() const { return out_; }  // rows of the last received batch

 private:
  Status Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0) return Unavailable("send: %s", ErrnoText(errno));
      text.remove_prefix(static_cast<size_t>(n));
    }
    return OkStatus();
  }
  Status Read(char* to, size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = recv(fd_.get(), to, bytes, 0);
      if (n <= 0) return Unavailable("recv: %s", n < 0 ? ErrnoText(errno) : "the server hung up");
      to += n;
      bytes -= static_cast<size_t>(n);
    }
    return OkStatus();
  }
  // Receives the replies to a batch. Their size is known, because every row exists.
  Status Receive() {
    --in_progress_;
    static const std::string kHead = "$" + std::to_string(kBytesOfRow) + "\r\n";
    static const std::string kArray = "*" + std::to_string(kKeysOfCommand) + "\r\n";
    const size_t arrays = keys_ == 0 ? 0 : kRowsOfBatch / keys_;
    replies_.resize(arrays * kArray.size() + kRowsOfBatch * (kHead.size() + kBytesOfRow + 2));
    TD_RETURN_IF_ERROR(Read(replies_.data(), replies_.size()));
    const char* at = replies_.data();
    for (size_t i = 0; i < kRowsOfBatch; ++i) {
      if (keys_ != 0 && i % keys_ == 0) {
        if (std::memcmp(at, kArray.data(), kArray.size()) != 0) return Internal("no array");
        at += kArray.size();
      }
      if (std::memcmp(at, kHead.data(), kHead.size()) != 0) return Internal("a row is missing");
      at += kHead.size();
      std::memcpy(out_.data() + i * kWidth, at, kBytesOfRow);
      at += kBytesOfRow + 2;
    }
    return OkStatus();
  }

  Fd fd_;
  size_t keys_ = 0;
  int in_progress_ = 0;
  std::vector<char> replies_;
  std::vector<float> out_ = std::vector<float>(kRowsOfBatch * kWidth);
};

// Pulls rows with a client of Tandem, two pulls in progress.
class Puller {
 public:
  explicit Puller(ps::PsClient& client) : client_(client) {}
  Status Pull(const Ids& ids) {
    Turn& next = turns_[pulls_++ % 2];
    TD_RETURN_IF_ERROR(Await(next));
    next.out.resize(ids.size() * kWidth);
    ps::PsRows rows{"emb", ids, {}};
    for (size_t i = 0; i < ids.size(); ++i) rows.to.push_back(next.out.data() + i * kWidth);
    next.started = true;
    client_.PullRows({}, {std::move(rows)},
                     [&next](const StatusOr<uint64_t>& v) { next.done.Complete(v.status()); });
    return OkStatus();
  }
  Status AwaitAll() {
    TD_RETURN_IF_ERROR(Await(turns_[0]));
    return Await(turns_[1]);
  }
  std::span<const float> out() const { return turns_[(pulls_ + 1) % 2].out; }

 private:
  struct Turn {
    std::vector<float> out;
    bool started = false;
    exec::CommDone done;
  };
  static Status Await(Turn& turn) {
    if (!turn.started) return OkStatus();
    TD_RETURN_IF_ERROR(turn.done.Wait(Time::max()));
    turn.done.Reset();
    turn.started = false;
    return OkStatus();
  }

  ps::PsClient& client_;
  Turn turns_[2];
  uint64_t pulls_ = 0;
};

// A pserver with a table of kHeldRows rows, which Redis clients may read at two addresses.
class Lookup {
 public:
  Status Start(bool unix_socket) {
    TD_RETURN_IF_ERROR(folder_.Make());
    pserver::PserverOptions options;
    options.resp_listen =
        unix_socket ? Endpoint{"", 0, folder_.path() + "/resp"} : Endpoint{"127.0.0.1", 0};
    TD_RETURN_IF_ERROR(ps_.Start(options, {.transport = ps::PsTransport::kShm}));
    const ps::PsTable table = {"emb", kHeight, kWidth, ps::PsTable::InitKind::kUniform,
                               -0.1f, 0.1f,    1,      ""};
    TD_RETURN_IF_ERROR(
        ps_.client->Configure({}, ps::PsMode::kASync, {"sgd", {}}, {table}).status());
    TD_RETURN_IF_ERROR(ps_.client->InitOrFetch({}).status());
    const std::vector<float> ones(kKeys * kWidth, 1.0f);
    Ids ids = AllHeld();
    for (size_t i = 0; i < kHeldRows; i += kKeys) {
      const std::span part = std::span(ids).subspan(i, std::min(kKeys, kHeldRows - i));
      exec::CommDone done;
      ps_.client->Push(step_++, 0.01f, {}, [&done](const Status& s) { done.Complete(s); },
                       {{"emb", part, ones.data()}});
      TD_RETURN_IF_ERROR(done.Wait(Time::max()));
    }
    return OkStatus();
  }
  static Ids AllHeld() {
    Ids ids;
    for (uint64_t i = 0; i < kHeldRows; ++i) ids.push_back(IdOf(i));
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  ps::PsClient& client() { return *ps_.client; }
  pserver::Pserver& server() { return *ps_.server; }
  Endpoint resp() const { return *ps_.server->resp_endpoint(); }

 private:
  Folder folder_;
  uint64_t step_ = 0;
  PsPair ps_;
};

// Copies all rows of the table to Redis.
Status Fill(Lookup& table, LookupClient& redis) {
  const Ids all = Lookup::AllHeld();
  Puller puller(table.client());
  for (size_t i = 0; i < kHeldRows; i += kLoadRows) {
    const auto first = all.begin() + static_cast<int64_t>(i);
    const Ids ids(first, first + static_cast<int64_t>(std::min(kLoadRows, kHeldRows - i)));
    TD_RETURN_IF_ERROR(puller.Pull(ids));
    TD_RETURN_IF_ERROR(puller.AwaitAll());
    TD_RETURN_IF_ERROR(redis.Load(ids, puller.out().data()));
  }
  return OkStatus();
}

// Returns rows per second of repeated passes over `batches`.
template <typename Batches, typename Run>
StatusOr<double> Rate(const Batches& batches, size_t rows_of_batch, double seconds,
                      const Run& run) {
  for (const auto& batch : batches) TD_RETURN_IF_ERROR(run(batch));
  size_t rows = 0;
  double taken = 0;
  const Time start = SteadyNow();
  while (taken < seconds) {
    for (const auto& batch : batches) TD_RETURN_IF_ERROR(run(batch));
    rows += batches.size() * rows_of_batch;
    taken = Seconds(SteadyNow() - start);
  }
  return static_cast<double>(rows) / taken;
}

// Measures a server for Redis clients. `name`: prefix of the fields.
Status Measure(const std::string& name, const Endpoint& server, const std::vector<Ids>& requests,
               std::span<const float> last, double seconds, Report& report) {
  LookupClient client;
  TD_RETURN_IF_ERROR(client.Connect(server));
  for (const bool mget : {true, false}) {
    std::vector<Batch> batches;
    for (const Ids& ids : requests) batches.push_back(mget ? MgetBatch(ids) : GetBatch(ids));
    TD_ASSIGN_OR_RETURN(const double rate,
                        Rate(batches, kRowsOfBatch, seconds,
                             [&client](const Batch& batch) { return client.Ask(batch); }));
    TD_RETURN_IF_ERROR(client.AwaitAll());
    if (!std::ranges::equal(client.out(), last)) return Internal("%s gives other rows", name);
    report.Add(name + (mget ? "_mget_rows_per_s" : "_get_rows_per_s"), rate);
  }
  return OkStatus();
}

std::vector<Ids> Draw(size_t count, size_t rows) {
  std::vector<Ids> requests(count);
  uint64_t word = 1;
  for (Ids& ids : requests) {
    for (size_t i = 0; i < rows; ++i) {
      word = word * 6364136223846793005u + 1442695040888963407u;
      ids.push_back(IdOf((word >> 33) % kHeldRows));
    }
  }
  return requests;
}

}  // namespace

StatusOr<Report> LookupVsRedis(const RunOptions& options) {
  int port = 0;
  if (std::ifstream file(options.export_dir + "/redis.port"); !(file >> port)) {
    return InvalidArgument(
        "--export_dir: a directory with the socket redis.sock and the file redis.port of a Redis");
  }
  const Endpoint redis[] = {{"127.0.0.1", port}, {"", 0, options.export_dir + "/redis.sock"}};
  Lookup tcp, unix_socket;
  TD_RETURN_IF_ERROR(tcp.Start(false));
  TD_RETURN_IF_ERROR(unix_socket.Start(true));
  LookupClient filler;
  TD_RETURN_IF_ERROR(filler.Connect(redis[1]));
  TD_RETURN_IF_ERROR(Fill(tcp, filler));
  const std::vector<Ids> requests = Draw(kBatches, kRowsOfBatch);
  Puller puller(tcp.client());
  TD_RETURN_IF_ERROR(puller.Pull(requests.back()));
  TD_RETURN_IF_ERROR(puller.AwaitAll());
  const std::vector<float> last(puller.out().begin(), puller.out().end());
  Report report;
  for (const bool local : {false, true}) {
    const std::string prefix = local ? "unix_" : "";
    TD_RETURN_IF_ERROR(
        Measure(prefix + "redis", redis[local], requests, last, options.seconds, report));
    TD_RETURN_IF_ERROR(Measure(prefix + "resp", (local ? unix_socket : tcp).resp(), requests, last,
                               options.seconds, report));
  }
  const std::vector<Ids> large = Draw(32, kKeys);
  ps::PsOptions over_grpc{.trainer = 0, .transport = ps::PsTransport::kGrpc};
  for (const bool shm : {true, false}) {
    Lookup& served = shm ? tcp : unix_socket;
    ps::PsClient* client = &served.client();
    std::unique_ptr<ps::PsClient> grpc;
    if (!shm) {
      TD_ASSIGN_OR_RETURN(grpc,
                          ps::PsClient::Connect({ToString(served.server().endpoint())}, over_grpc));
      const ps::PsTable table = {"emb", kHeight, kWidth, ps::PsTable::InitKind::kUniform,
                                 -0.1f, 0.1f,    1,      ""};
      TD_RETURN_IF_ERROR(grpc->Configure({}, ps::PsMode::kASync, {"sgd", {}}, {table}).status());
      TD_RETURN_IF_ERROR(grpc->InitOrFetch({}).status());
      client = grpc.get();
    }
    Puller pulls(*client);
    TD_ASSIGN_OR_RETURN(const double rate, Rate(large, kKeys, options.seconds,
                                                [&](const Ids& ids) { return pulls.Pull(ids); }));
    TD_RETURN_IF_ERROR(pulls.AwaitAll());
    report.Add(shm ? "shm_rows_per_s" : "grpc_rows_per_s", rate);
  }
  return report;
}

}  // namespace tandem::bench
