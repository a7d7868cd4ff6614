// Implements the commands rebalance and drain --pserver. They move rows of tables and slices of
// dense variables between the pservers of a running job.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/tables/row_buckets.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_channels.h"
#include "deploy/cli/job/rebalance.h"
#include "pserver/client/moves/bucket_migrator.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

// Returns how many of the buckets are slices of dense variables. All other buckets are row buckets.
size_t SlicesOf(const std::vector<int>& buckets) {
  return static_cast<size_t>(
      std::count_if(buckets.begin(), buckets.end(), [](int b) { return b >= kRowBuckets; }));
}

uint64_t SliceBytes(const ps::ServedBuckets& server) {
  uint64_t sum = 0;
  for (const auto& [bucket, bytes] : server.slice_bytes) sum += bytes;
  return sum;
}

Json ToJson(const std::vector<ps::ServedBuckets>& servers) {
  Json all = Json::array();
  for (const ps::ServedBuckets& s : servers) {
    all.push_back({{"pserver", s.server},
                   {"address", s.address},
                   {"buckets", s.buckets.size() - SlicesOf(s.buckets)},
                   {"rows", s.rows},
                   {"slices", SlicesOf(s.buckets) + s.slices},
                   {"slice_bytes", SliceBytes(s)},
                   {"leaving", s.leaving}});
  }
  return all;
}

Json ToJson(const std::vector<ps::BucketTransfer>& plan) {
  Json all = Json::array();
  for (const ps::BucketTransfer& t : plan) {
    const size_t slices = SlicesOf(t.buckets);
    all.push_back({{"source", t.source},
                   {"target", t.target},
                   {"buckets", t.buckets.size() - slices},
                   {"slices", slices}});
  }
  return all;
}

void Print(const std::vector<ps::ServedBuckets>& servers) {
  for (const ps::ServedBuckets& s : servers) {
    const size_t slices = SlicesOf(s.buckets);
    std::printf("pserver %d (%s): %zu buckets, %llu rows, %zu slices (%.1f MB)%s\n", s.server,
                s.address.c_str(), s.buckets.size() - slices,
                static_cast<unsigned long long>(s.rows), slices + s.slices,
                static_cast<double>(SliceBytes(s)) / 1e6, s.leaving ? ", leaving" : "");
  }
}

void Print(const ps::MoveProgress& p) {
  std::printf(
      "%zu of %zu row buckets and slices moved, %.1f MB; each was unavailable for at most %.0f "
      "ms\n",
      p.done, p.buckets, static_cast<double>(p.bytes) / 1e6, Seconds(p.frozen) * 1e3);
  std::fflush(stdout);
}

Status CheckDrain(const std::vector<ps::ServedBuckets>& servers, int server) {
  const auto it = std::find_if(servers.begin(), servers.end(),
                               [server](const ps::ServedBuckets& s) { return s.server == server; });
  if (it == servers.end()) {
    return InvalidArgument("there is no pserver %d: the job has %d pservers [TD1004]", server,
                           servers.size());
  }
  const bool another = std::any_of(
      servers.begin(), servers.end(),
      [server](const ps::ServedBuckets& s) { return s.server != server && !s.leaving; });
  if (!another) {
    return FailedPrecondition(
        "pserver %d cannot be drained, because this pserver is the last one that is not drained "
        "[TD1005]; hint: add another pserver with tandem rebalance --add=HOST:PORT",
        server);
  }
  if (server == 0) {
    return FailedPrecondition(
        "pserver 0 cannot be drained, because pserver 0 also serves the barriers of the trainers "
        "[TD1005]; hint: drain another pserver");
  }
  if (it->slices == 0) return OkStatus();
  return FailedPrecondition(
      "pserver %d has %d slices of dense variables that cannot move, because an older version of "
      "Tandem wrote them [TD1109]; hint: save the job, and start the job again with other servers",
      server, it->slices);
}

Status CheckDrained(const std::vector<ps::ServedBuckets>& servers, int server) {
  for (const ps::ServedBuckets& s : servers) {
    if (s.server != server || s.buckets.empty()) continue;
    return FailedPrecondition(
        "pserver %d received %d partitions during its drain, probably from tandem rebalance --add; "
        "hint: drain this pserver again",
        server, s.buckets.size());
  }
  return OkStatus();
}

// Adds an event for `tandem status` and tandemrun to the log directory of the job.
void Note(const JobAccess& access, const char* event, int server, const std::string& text) {
  NoteEvent(access, {"", event, absl::StrFormat("pserver %d", server), 0, text});
}

// Divides the transfers into batches, between which a deadline can be checked.
std::vector<ps::BucketTransfer> Batches(const std::vector<ps::BucketTransfer>& plan) {
  constexpr size_t kBuckets = 64;
  std::vector<ps::BucketTransfer> batches;
  for (const ps::BucketTransfer& whole : plan) {
    for (size_t begin = 0; begin < whole.buckets.size(); begin += kBuckets) {
      const size_t end = std::min(begin + kBuckets, whole.buckets.size());
      ps::BucketTransfer batch{whole.source, whole.target, {}};
      batch.buckets.assign(whole.buckets.begin() + static_cast<ptrdiff_t>(begin),
                           whole.buckets.begin() + static_cast<ptrdiff_t>(end));
      batches.push_back(std::move(batch));
    }
  }
  return batches;
}

// Runs the transfers until `what.deadline`. Adds what was moved to `last`.
Status Move(ps::BucketMigrator& mover, const std::vector<ps::BucketTransfer>& plan,
            const Rebalancing& what, ps::MoveProgress& last) {
  const bool quiet = what.as_json || what.silent;
  size_t tenth = 0;
  if (what.deadline == Time::max()) {
    return mover.Run(plan, [&](const ps::MoveProgress& p) {
      last = p;
      const size_t now = p.done * 10 / p.buckets;
      if (now != std::exchange(tenth, now) && !quiet) Print(p);
    });
  }
  for (const ps::BucketTransfer& t : plan) last.buckets += t.buckets.size();
  for (const ps::BucketTransfer& batch : Batches(plan)) {
    if (SteadyNow() >= what.deadline) {
      return DeadlineExceeded(
          "%d of %d row buckets and slices have moved, but the time limit has passed [TD7018]; "
          "hint: repeat the command, which moves the rest, or raise --wait_s",
          last.done, last.buckets);
    }
    ps::MoveProgress moved;
    TD_RETURN_IF_ERROR(mover.Run({batch}, [&](const ps::MoveProgress& p) { moved = p; }));
    last.done += moved.done;
    last.bytes += moved.bytes;
    last.frozen = std::max(last.frozen, moved.frozen);
    const size_t now = last.done * 10 / last.buckets;
    if (now != std::exchange(tenth, now) && !quiet) Print(last);
  }
  return OkStatus();
}

}  // namespace

Status Rebalance(const JobAccess& access, const Rebalancing& what) {
  TD_ASSIGN_OR_RETURN(const JobChannels job, ConnectPservers(access));
  ps::BucketMigrator mover(*job.carrier, job.addresses,
                           {.job = access.job, .drained = access.drained});
  TD_ASSIGN_OR_RETURN(std::vector<ps::ServedBuckets> servers, mover.Where());
  for (const std::string& address : what.added) {
    const auto known =
        std::find_if(servers.begin(), servers.end(),
                     [&](const ps::ServedBuckets& s) { return s.address == address; });
    if (known == servers.end()) {
      TD_RETURN_IF_ERROR(mover.Add(address));
    } else if (known->leaving && !what.dry) {
      TD_RETURN_IF_ERROR(mover.Stay(known->server));
    }
  }
  if (!what.added.empty()) {
    TD_ASSIGN_OR_RETURN(servers, mover.Where());
  }
  if (what.drained >= 0) {
    TD_RETURN_IF_ERROR(CheckDrain(servers, what.drained));
    TD_RETURN_IF_ERROR(mover.Leave(what.drained));
    TD_ASSIGN_OR_RETURN(servers, mover.Where());
  }
  const std::vector<ps::BucketTransfer> plan =
      what.drained >= 0 ? ps::PlanDrain(servers, what.drained) : ps::PlanRebalance(servers);
  ps::MoveProgress last;
  if (!what.dry) {
    for (const ps::ServedBuckets& s : servers) {
      const bool came = std::count(what.added.begin(), what.added.end(), s.address) != 0;
      if (came) Note(access, "added", s.server, s.address);
    }
    TD_RETURN_IF_ERROR(Move(mover, plan, what, last));
    if (what.drained >= 0) TD_RETURN_IF_ERROR(mover.AwaitStep());
    TD_ASSIGN_OR_RETURN(servers, mover.Where());
    if (what.drained >= 0) {
      TD_RETURN_IF_ERROR(CheckDrained(servers, what.drained));
      Note(access, "drained", what.drained, "");
    }
  }
  if (what.silent) return OkStatus();
  if (what.as_json) {
    const Json answer = {{"moved_buckets", last.done},
                         {"moved_bytes", last.bytes},
                         {"frozen_seconds_max", Seconds(last.frozen)},
                         {"dry_run", what.dry},
                         {"transfers", ToJson(plan)},
                         {"pservers", ToJson(servers)}};
    std::puts(answer.dump(2).c_str());
    return OkStatus();
  }
  for (const ps::BucketTransfer& t : plan) {
    if (what.dry) {
      const bool slices = SlicesOf(t.buckets) != 0;
      std::printf("would move %zu %s from pserver %d to pserver %d\n", t.buckets.size(),
                  slices ? "slices" : "buckets", t.source, t.target);
    }
  }
  Print(servers);
  if (what.drained >= 0 && !what.dry) {
    std::printf("pserver %d is empty and receives no more rows; it can be stopped\n", what.drained);
  }
  return OkStatus();
}

namespace {

Status RebalanceBody(const ParsedArgs& args) {
  Rebalancing what;
  TD_ASSIGN_OR_RETURN(what.as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  what.dry = args.Has("dry_run");
  const std::string added = args.Get("add");
  for (size_t begin = 0; begin < added.size();) {
    const size_t comma = std::min(added.find(',', begin), added.size());
    TD_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(added.substr(begin, comma - begin)));
    what.added.push_back(ToString(endpoint));
    begin = comma + 1;
  }
  return Rebalance(access, what);
}

}  // namespace

Status DrainPserver(const ParsedArgs& args) {
  Rebalancing what;
  TD_ASSIGN_OR_RETURN(what.as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(what.drained, args.GetInt("pserver", 0, 0, 1 << 20));
  return Rebalance(access, what);
}

int RunRebalance(const Args& args) {
  return RunBody(
      "rebalance",
      "tandem rebalance [LOG_DIR]: distributes table rows and slices of dense variables evenly "
      "over a\njob's pservers, while trainers continue. Start a new server before you add it:\n  "
      "tandem-pserver --listen=HOST:PORT --index=<number of pservers so far> --job=NAME\n",
      AccessFlags({{"add", "", "HOST:PORT,...", "pservers to add to the job, in their order"},
                   {"dry_run", "", "",
                    "print the moves without starting them; an interrupted move is completed"}}),
      args, RebalanceBody);
}

}  // namespace tandem::deploy
