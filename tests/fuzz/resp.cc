// Fuzz target: commands of Redis clients. The target parses the same bytes in one piece and byte by
// byte, and executes the commands on a small shard.
#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/tables/row_buckets.h"
#include "common/tensor/device.h"
#include "pserver/resp/resp_session.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

constexpr size_t kBytesMax = 4096, kArgumentsMax = 64;

using Commands = std::vector<std::vector<std::string>>;

// A shard with a table and a dense variable.
struct Served : pserver::Deadlines {
  Served() : Deadlines(clock) {
    pserver::ShardConfig config{.job = "job", .trainers = 1};
    config.mode = UpdatePolicy::kASync;
    config.optimizer.type = "sgd";
    config.slices = {{"bias", Shape{3}, 0, 3}};
    pserver::TableSpec table;
    table.variable = "emb";
    table.shape = Shape{1000, 4};
    table.bucket_end = kRowBuckets;
    config.tables = {table};
    const CallerId trainer = {"job", 0, 1};
    CHECK(shard.Configure(trainer, config).ok());
    Buffer values = *device.Allocate(3 * sizeof(float));
    std::fill_n(reinterpret_cast<float*>(values.get()), 3, 0.5f);
    pserver::RowValues no_rows;
    no_rows.variable = "emb";
    no_rows.last = true;
    const auto whole = shard.InitParams(trainer, 0, {{"bias", 0, 3, values}}, {}, {no_rows});
    CHECK(whole.ok() && *whole) << whole.status();
  }
  void Poke(Time) override {}

  FakeClock clock;
  Metrics metrics;
  CpuDevice device;
  exec::Backend backend = exec::Backend::Cpu();
  pserver::Shard shard{{}, clock, backend, device, metrics};
};

// Parses all complete commands. `step`: number of bytes that arrive together.
StatusOr<Commands> Parse(std::string_view input, size_t step) {
  pserver::RespParser parser(kBytesMax, kArgumentsMax);
  Commands commands;
  size_t begin = 0;
  for (size_t end = 0; end < input.size();) {
    end = std::min(input.size(), end + step);
    while (true) {
      const std::string_view buffer = input.substr(begin, end - begin);
      TD_ASSIGN_OR_RETURN(const bool complete, parser.Parse(buffer));
      if (!complete) break;
      const pserver::RespArguments arguments = parser.arguments(buffer);
      std::vector<std::string>& command = commands.emplace_back();
      for (size_t i = 0; i < arguments.size(); ++i) command.emplace_back(arguments[i]);
      CHECK_LE(parser.bytes(), kBytesMax);
      begin += parser.bytes();
      parser.Reset();
    }
  }
  return commands;
}

// Executes all complete commands as a connection does.
void Execute(const std::shared_ptr<pserver::RespShared>& shared, std::string_view input) {
  using Step = pserver::RespSession::Step;
  pserver::RespSession session(shared, "ipv4:127.0.0.1:1", [] {});
  pserver::RespParser parser(kBytesMax, kArgumentsMax);
  pserver::RespOutput out;
  size_t replies = 0;  // number of commands that must have a reply
  while (true) {
    const auto complete = parser.Parse(input);
    if (!complete.ok() || !*complete) break;
    Step step = session.Execute(parser.arguments(input), out);
    if (step == Step::kFlush) {
      CHECK(session.Flush(out) == Step::kReplied);
      step = session.Execute(parser.arguments(input), out);
    }
    CHECK(step != Step::kWaiting && step != Step::kFlush);
    replies += parser.arguments(input).size() == 0 ? 0 : 1;
    if (step == Step::kClose) break;
    input.remove_prefix(parser.bytes());
    parser.Reset();
  }
  CHECK(session.Flush(out) == Step::kReplied);
  CHECK_EQ(session.gathered_bytes(), 0u);
  const std::string_view text(out.data(), out.size());
  CHECK_EQ(text.empty(), replies == 0);
  CHECK(replies == 0 || (std::strchr("+-:$*%", text[0]) != nullptr && text.ends_with("\r\n")));
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  const auto served = std::make_shared<Served>();
  pserver::RespTarget target;
  target.shard = &served->shard;
  target.deadlines = served.get();
  const auto shared = std::make_shared<pserver::RespShared>(target, served->metrics);
  const auto accepts = [served, shared](std::string_view input) {
    const StatusOr<Commands> whole = Parse(input, std::max<size_t>(1, input.size()));
    const StatusOr<Commands> parts = Parse(input, 1);
    CHECK_EQ(whole.ok(), parts.ok()) << "the result depends on how the bytes arrive";
    CHECK(whole.ok() || !whole.status().message().empty());
    if (whole.ok()) CHECK(*whole == *parts);
    Execute(shared, input);
    return whole.ok() && !whole->empty();
  };
  return {{"*2\r\n$3\r\nGET\r\n$5\r\nemb:7\r\n*1\r\n$4\r\nPING\r\n",
           "*4\r\n$4\r\nMGET\r\n$5\r\nemb:7\r\n$4\r\nbias\r\n$5\r\nemb:9\r\n",
           "*3\r\n$5\r\nHMGET\r\n$3\r\nemb\r\n$1\r\n7\r\n",
           "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$4\r\nINFO\r\n*1\r\n$7\r\nCOMMAND\r\n",
           "*3\r\n$6\r\nEXISTS\r\n$5\r\nemb:7\r\n$1\r\nx\r\n*2\r\n$4\r\nHLEN\r\n$3\r\nemb\r\n"},
          {"GET", "MGET", "HGET", "HMGET", "HEXISTS", "HELLO", "AUTH", "SETNAME", "QUIT", "SELECT",
           "emb:", "bias", "*0\r\n", "$0\r\n", "\r\n", "*1\r\n"},
          accepts};
}

}  // namespace tandem
