#include "pserver/resp/resp_info.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/tables/row_buckets.h"
#include "pserver/resp/resp_session.h"
#include "pserver/shard/migration_calls.h"

namespace tandem::pserver {
namespace {

// Returns ascending numbers as ranges: "0-511,700".
std::string Ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end == begin + 1 ? std::to_string(numbers[begin])
                                      : absl::StrFormat("%d-%d", numbers[begin], numbers[end - 1]));
  }
  return absl::StrJoin(ranges, ",");
}

// Returns the number after "row bucket" in the message of an error; -1: there is none.
int RowBucketIn(const std::string& message) {
  constexpr std::string_view kWords = "row bucket ";
  const size_t at = message.find(kWords);
  if (at == std::string::npos) return -1;
  const char* const begin = message.data() + at + kWords.size();
  int bucket = -1;
  (void)std::from_chars(begin, message.data() + message.size(), bucket);
  return bucket < kRowBuckets ? bucket : -1;
}

}  // namespace

Status WithOwner(const Status& status, const RespTarget& target) {
  std::string message(status.message());
  const int bucket = RowBucketIn(message);
  if (bucket < 0 && !absl::IsOutOfRange(status)) return status;
  const auto now = target.shard->migrations().Look(target.shard->Job());
  if (bucket >= 0 && now.ok() && now->map.epoch(bucket) != 0) {
    const int owner = now->map.owner(bucket, -1);
    absl::StrAppendFormat(&message, ", and its bucket moved to pserver %d", owner);
    const auto address = now->map.addresses().find(owner);
    if (address != now->map.addresses().end()) {
      absl::StrAppendFormat(&message, " (%s), which joined the job", address->second);
    }
  }
  message +=
      " [TD4035]; hint: read the row from the server that has its row bucket, which INFO "
      "shows, or from a replica of it";
  return {status.code(), message};
}

std::string RespInfo(const RespShared& shared) {
  const RespTarget& target = shared.target;
  const ShardInfo info = target.shard->Info();
  const std::string job = target.shard->Job();
  std::string text = "# Server\r\nserver:tandem\r\n";
  absl::StrAppendFormat(&text, "job:%s\r\nindex:%d\r\n", job, target.index);
  absl::StrAppendFormat(&text, "version:%d\r\n", info.version);
  absl::StrAppendFormat(&text, "loading:%d\r\n", info.initialised ? 0 : 1);
  std::vector<int> buckets;
  if (const StatusOr<MapAnswer> map = target.shard->migrations().Look(job); map.ok()) {
    std::ranges::copy_if(map->buckets, std::back_inserter(buckets),
                         [](int bucket) { return bucket < kRowBuckets; });
  }
  absl::StrAppendFormat(&text, "row_buckets:%s\r\n", Ranges(std::move(buckets)));
  absl::StrAppendFormat(&text, "\r\n# Clients\r\nconnected_clients:%d\r\nbuffer_bytes:%d\r\n",
                        shared.connections.load(), shared.memory.used());
  absl::StrAppendFormat(&text, "\r\n# Replication\r\nrole:%s\r\n",
                        target.replica ? "replica" : "master");
  if (target.replica) {
    const LogFollower::Progress progress = target.replica();
    const uint64_t last = progress.position.last;
    absl::StrAppendFormat(&text, "log_entries:%d\r\nlag_entries:%d\r\nlag_seconds:%.3f\r\n", last,
                          progress.primary_last - std::min(progress.primary_last, last),
                          Seconds(SteadyNow() - progress.current));
    absl::StrAppendFormat(&text, "primary_link:%s\r\n", progress.status.ok() ? "up" : "down");
  }
  text += "\r\n# Tables\r\n";
  size_t rows = 0;
  for (const TableInfo& table : info.tables) rows += table.rows;
  absl::StrAppendFormat(&text, "rows:%d\r\n", rows);
  for (size_t i = 0; i < info.tables.size(); ++i) {
    const TableInfo& table = info.tables[i];
    absl::StrAppendFormat(&text, "table%d:name=%s,rows=%d,dim=%d,bytes=%d\r\n", i, table.variable,
                          table.rows, info.config.tables[i].dim(), table.bytes);
  }
  return text;
}

}  // namespace tandem::pserver
