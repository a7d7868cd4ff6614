// Tests the primary's side of replication without a network.
#include "pserver/replication/log_source.h"

#include <fcntl.h>

#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "common/os/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pserver/replication/term_keeper.h"
#include "pserver/wire/log_record.h"
#include "tests/support/fake_storage.h"
#include "tests/support/temp_dir.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

// A term of the history 7.
LogTerm Of(uint64_t number, uint64_t start = 0) { return {7, number, start}; }

// A store with a checkpoint in a file and log entries in memory.
class FilesStorage final : public Storage, public CheckpointFiles {
 public:
  explicit FilesStorage(std::string path) : path_(std::move(path)) {}

  std::map<uint64_t, LogEntry> log;
  bool has_checkpoint = false, delta = false;
  std::optional<LogBreak> unfinished;
  LogTerm term = Of(1);
  Status set_status;

  CheckpointFiles* files() override { return this; }
  StatusOr<OpenedCheckpoint> OpenCheckpoint() override {
    if (!has_checkpoint) return NotFound("no checkpoint");
    if (delta || unfinished) return FailedPrecondition("a delta, or an old state");
    OpenedCheckpoint opened{.record = "record", .values = Fd(open(path_.c_str(), O_RDONLY))};
    opened.bytes = std::filesystem::file_size(path_);
    return opened;
  }
  std::string NewValuesFile() override { return path_ + ".new"; }
  Status InstallCheckpoint(const std::string&, const std::string&, const LogTerm&) override {
    return OkStatus();
  }
  StatusOr<LogTerm> Term() override { return term; }
  Status SetTerm(const LogTerm& set) override {
    if (!set_status.ok()) return set_status;
    term = set;
    return OkStatus();
  }
  StatusOr<bool> Complete() override { return true; }
  Status SetComplete() override { return OkStatus(); }
  Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) override {
    if (!log.empty() && log.rbegin()->first > after && !log.contains(after + 1)) {
      return DataLoss("entry %d is missing", after + 1);
    }
    for (auto it = log.upper_bound(after); it != log.end(); ++it) {
      TD_RETURN_IF_ERROR(take(it->second));
    }
    return OkStatus();
  }
  StatusOr<size_t> Write(const ShardSnapshot& image) override { return image.bytes(); }
  StatusOr<bool> Read(SnapshotSink&) override { return false; }
  StatusOr<size_t> WriteGlobalSnapshot(const SnapshotName&, const ShardSnapshot& image,
                                       std::span<const uint64_t>) override {
    return image.bytes();
  }
  Status ReadGlobalSnapshot(uint64_t, SnapshotSink&) override { return NotFound("none"); }
  StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() override {
    return std::vector<StoredGlobalSnapshot>();
  }
  StatusOr<size_t> AppendLog(std::span<const LogEntry>, bool) override { return size_t{0}; }
  Status CheckRoom(uint64_t) override { return OkStatus(); }
  Status SyncLog() override { return OkStatus(); }
  Status ClearLog() override { return OkStatus(); }
  StatusOr<std::optional<LogBreak>> UnfinishedRestore() override { return unfinished; }

 private:
  const std::string path_;
};

class LogSourceTest : public testing::Test {
 protected:
  LogSource& Source(int standbys = 1, uint64_t window_bytes_max = 1 << 20) {
    LogSource::Options options;
    options.standbys = standbys;
    options.window_bytes_max = window_bytes_max;
    options.replica_wait = std::chrono::milliseconds(1);
    options.outdated = [this] { return outdated_; };
    options.on_replicated = [this](uint64_t number) { replicated_ = number; };
    options.save = [this] {
      ++saves_;
      if (!save_status_.ok()) return save_status_;
      storage_.delta = false;
      storage_.unfinished.reset();
      return OkStatus();
    };
    source_.emplace(std::move(options), storage_, clock_);
    source_->BeginTerm(Of(1), 0);
    return *source_;
  }
  // Adds entries to the store and to the source.
  void Write(int count) {
    std::vector<LogEntry> entries;
    for (int i = 0; i < count; ++i) {
      LogEntry entry{++number_, CompleteRecord{{.job = "job", .trainer = 3, .incarnation = 7}}};
      storage_.log.emplace(number_, entry);
      entries.push_back(std::move(entry));
    }
    source_->OnWritten(entries);
  }
  StatusOr<FetchedLog> Fetch(int member, uint64_t after, uint64_t term = 1,
                             uint64_t incarnation = 1) {
    return source_->Fetch({member, incarnation, Of(term), true, after}, Time::min());
  }

  TempDir dir_;
  FilesStorage storage_{dir_.path() + "/values"};
  FakeClock clock_;
  std::optional<LogSource> source_;
  uint64_t number_ = 0, replicated_ = 0;
  int saves_ = 0;
  Status save_status_;
  bool outdated_ = false;
};

TEST_F(LogSourceTest, EntriesComeInOrderFromMemoryAndFromTheStore) {
  LogSource& source = Source(1, /*window_bytes_max=*/1);  // keeps one entry in memory
  Write(5);
  for (const uint64_t after : {4, 2, 0}) {
    const auto fetched = source.Fetch({1, 1, Of(1), true, after}, Time::min());
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(fetched->last, 5u);
    EXPECT_FALSE(fetched->needs_checkpoint);
    ASSERT_EQ(fetched->entries.size(), 5 - after);
    for (const auto& bytes : fetched->entries) {
      EXPECT_TRUE(DecodeLogEntry(after + 1, *bytes).ok());
    }
  }
  storage_.log.erase(1);
  EXPECT_TRUE(Fetch(1, 0)->needs_checkpoint);  // a checkpoint removed entry 1
  EXPECT_EQ(Fetch(1, 1)->entries.size(), 4u);
}

TEST_F(LogSourceTest, AMajorityIsCounted) {
  struct Case {
    int standbys;
    std::vector<uint64_t> stored;  // by standby
    uint64_t replicated;
  };
  for (const Case& c : {Case{1, {4}, 4}, Case{2, {4}, 4}, Case{2, {2, 5}, 5}, Case{3, {5}, 0},
                        Case{3, {5, 3}, 3}, Case{3, {1, 5, 3}, 3}, Case{4, {5, 4, 1, 2}, 4}}) {
    storage_.log.clear();
    number_ = replicated_ = 0;
    Source(c.standbys);
    Write(5);
    for (size_t i = 0; i < c.stored.size(); ++i) {
      ASSERT_TRUE(Fetch(static_cast<int>(i) + 1, c.stored[i]).ok());
    }
    EXPECT_EQ(replicated_, c.replicated) << c.standbys << " standbys";
  }
}

TEST_F(LogSourceTest, TheTermDecidesWhetherAStateContinues) {
  LogSource& source = Source(2);
  Write(5);
  source.BeginTerm(Of(4), 5, LogSource::Predecessor{Of(1), 3});
  EXPECT_FALSE(Fetch(1, 3, 1)->needs_checkpoint);
  EXPECT_EQ(Fetch(1, 3, 1)->term, Of(4));
  EXPECT_TRUE(Fetch(1, 4, 1)->needs_checkpoint);  // entry 4 of term 1 may be another
  EXPECT_EQ(replicated_, 0u);
  EXPECT_TRUE(Fetch(1, 2, 3)->needs_checkpoint);
  EXPECT_FALSE(Fetch(1, 5, 4)->needs_checkpoint);
  EXPECT_EQ(replicated_, 5u);
  EXPECT_TRUE(source.Fetch({2, 1, {}, /*has_state=*/false, 0}, Time::min())->needs_checkpoint);
  const std::vector<StandbyInfo> known = source.standbys();
  ASSERT_EQ(known.size(), 2u);
  EXPECT_FALSE(known[1].current);
}

TEST_F(LogSourceTest, TheLagOfAStandbyIsKnown) {
  LogSource& source = Source(1, /*window_bytes_max=*/1000);
  ASSERT_TRUE(Fetch(1, 0).ok());
  Write(3);
  ASSERT_TRUE(Fetch(1, 1).ok());
  clock_.Advance(std::chrono::seconds(2));
  Write(1);
  clock_.Advance(std::chrono::seconds(1));
  const StandbyInfo info = source.standbys().at(0);
  EXPECT_EQ(info.member, 1);
  EXPECT_EQ(info.stored, 1u);
  EXPECT_EQ(info.lag_entries, 3u);
  EXPECT_EQ(info.lag_time, std::chrono::seconds(3));
  EXPECT_EQ(info.silent, std::chrono::seconds(3));
  const auto fetched = Fetch(1, 1);
  ASSERT_EQ(fetched->entries.size(), 3u);
  EXPECT_EQ(info.lag_bytes, 3 * fetched->entries[0]->size());
  clock_.Advance(std::chrono::seconds(1));
  Write(100);  // more than the window has
  EXPECT_EQ(source.standbys().at(0).lag_entries, 103u);
  EXPECT_LE(source.standbys().at(0).lag_bytes, 1000u);
  // The window lacks entry 2, and its own oldest entry was written now. The lag is an upper bound.
  EXPECT_EQ(source.standbys().at(0).lag_time, std::chrono::seconds(4));
  ASSERT_TRUE(Fetch(1, 104).ok());
  EXPECT_EQ(source.standbys().at(0).lag_entries, 0u);
  EXPECT_EQ(source.standbys().at(0).lag_time, Duration());
}

// After a restart the primary has written nothing, and a standby that lacks entries still lags.
TEST_F(LogSourceTest, AnEmptyWindowIsNoProofThatAStandbyFollows) {
  LogSource& source = Source(1);
  Write(5);
  source.BeginTerm(Of(4), 5, LogSource::Predecessor{Of(1), 5});
  clock_.Advance(std::chrono::seconds(3));
  ASSERT_TRUE(Fetch(1, 2, 1).ok());
  EXPECT_EQ(source.standbys().at(0).lag_entries, 3u);
  EXPECT_EQ(source.standbys().at(0).lag_time, std::chrono::seconds(3));
}

TEST_F(LogSourceTest, AStandbyWithANewerStateIsRefused) {
  LogSource& source = Source();
  Write(5);
  const auto message = [](const StatusOr<FetchedLog>& fetched) {
    return std::string(fetched.status().message());
  };
  EXPECT_THAT(message(Fetch(1, 6, 1)), HasSubstr("has lost log entries: it has 5"));
  EXPECT_THAT(message(Fetch(1, 5, 2)), HasSubstr("a standby was promoted"));
  EXPECT_THAT(message(source.Fetch({1, 1, Of(1, 1), true, 5}, Time::min())),
              HasSubstr("a standby was promoted"));
  EXPECT_THAT(message(source.Fetch({1, 1, {8, 1, 0}, true, 5}, Time::min())),
              HasSubstr("another history"));
  source.BeginTerm(Of(1, 1), 5, LogSource::Predecessor{Of(1), 4, /*restarted=*/true});
  EXPECT_FALSE(Fetch(1, 4, 1)->needs_checkpoint);
  EXPECT_THAT(message(Fetch(1, 5, 1)), HasSubstr("has lost log entries: it has 4"));
}

TEST_F(LogSourceTest, AStandbyIsTheProcessThatStartedLast) {
  Source();
  EXPECT_TRUE(Fetch(1, 0, 1, 8).ok());
  EXPECT_THAT(std::string(Fetch(1, 0, 1, 7).status().message()),
              HasSubstr("another process is member 1"));
  EXPECT_EQ(Fetch(2, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fetch(0, 0).status().code(), StatusCode::kInvalidArgument);  // its own number
}

TEST_F(LogSourceTest, AReplicaGetsWhatAMajorityHas) {
  LogSource& source = Source(2);
  const auto replica = [&](uint64_t after, uint64_t incarnation = 50) {
    return source.Fetch({kReplica, incarnation, Of(1), true, after}, Time::min());
  };
  ASSERT_TRUE(replica(0).ok());
  Write(5);
  ASSERT_TRUE(Fetch(1, 0).ok());
  EXPECT_TRUE(replica(0)->entries.empty());
  ASSERT_TRUE(Fetch(1, 3).ok());
  EXPECT_EQ(replica(0)->entries.size(), 3u);
  EXPECT_EQ(replica(2)->entries.size(), 1u);
  EXPECT_EQ(replica(3)->last, 3u);
  EXPECT_EQ(replicated_, 3u) << "a replica acknowledges nothing";
  // A replica with a newer or another state fetches the checkpoint instead of being refused.
  EXPECT_TRUE(replica(9)->needs_checkpoint);
  EXPECT_TRUE(source.Fetch({kReplica, 50, {8, 1, 0}, true, 5}, Time::min())->needs_checkpoint);
  EXPECT_EQ(source.standbys().size(), 1u);
  EXPECT_EQ(source.replicas(), 1);
  for (uint64_t i = 51; i < 114; ++i) ASSERT_TRUE(replica(0, i).ok());
  EXPECT_EQ(replica(0, 114).status().code(), StatusCode::kResourceExhausted);
  clock_.Advance(std::chrono::seconds(11));
  EXPECT_EQ(source.replicas(), 0);
  EXPECT_TRUE(replica(0, 114).ok());
}

TEST_F(LogSourceTest, ARequestWaitsForAnEntryAndForTheEnd) {
  LogSource& source = Source();
  StatusOr<FetchedLog> fetched;
  std::thread waits([&] {
    fetched = source.Fetch({1, 1, Of(1), true, 0}, SteadyNow() + std::chrono::seconds(30));
  });
  while (source.standbys().empty()) std::this_thread::yield();
  Write(1);
  waits.join();
  ASSERT_TRUE(fetched.ok());
  EXPECT_EQ(fetched->entries.size(), 1u);
  source.Pause();
  EXPECT_EQ(Fetch(1, 1).status().code(), StatusCode::kUnavailable);
  source.BeginTerm(Of(2), 1);
  EXPECT_TRUE(Fetch(1, 1)->needs_checkpoint);
  source.Close();
  EXPECT_EQ(Fetch(1, 1).status().code(), StatusCode::kUnavailable);
}

TEST_F(LogSourceTest, ACheckpointIsSentInParts) {
  LogSource& source = Source();
  EXPECT_EQ(source.FetchCheckpoint(1, 1, 0).status().code(), StatusCode::kNotFound);
  std::string content(4 << 20, 'a');
  content += "end";
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", content).ok());
  storage_.has_checkpoint = storage_.delta = true;
  const auto first = source.FetchCheckpoint(1, 1, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(saves_, 1);  // a delta is replaced by a full checkpoint
  EXPECT_EQ(first->record, "record");
  EXPECT_EQ(first->bytes, content.size());
  EXPECT_EQ(first->content.size(), size_t{4} << 20);
  std::filesystem::remove(dir_.path() + "/values");  // the file stays open
  EXPECT_EQ(source.FetchCheckpoint(1, 1, 4 << 20)->content, "end");
  EXPECT_EQ(source.FetchCheckpoint(1, 1, 4 << 20).status().code(),
            StatusCode::kFailedPrecondition);  // the end was fetched
}

// The server was killed in a restore and started again, and its store has no checkpoint of the
// restored state.
TEST_F(LogSourceTest, NoStandbyGetsTheStateBeforeAnUnfinishedRestore) {
  LogSource& source = Source(1, /*window_bytes_max=*/1);  // keeps one entry in memory
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", "values").ok());
  storage_.has_checkpoint = true;
  Write(5);
  ASSERT_TRUE(Fetch(1, 5).ok());  // a majority has the entries, so replicas may have them
  storage_.unfinished = LogBreak{.number = 3, .snapshot = 10};
  const auto before = Fetch(1, 2);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->needs_checkpoint);
  EXPECT_TRUE(before->entries.empty());
  save_status_ = ResourceExhausted("the disk is full");
  EXPECT_EQ(source.FetchCheckpoint(1, 1, 0).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(source.FetchCheckpoint(kReplica, 7, 0).status().code(), StatusCode::kResourceExhausted);
  save_status_ = OkStatus();
  EXPECT_EQ(source.FetchCheckpoint(1, 1, 0)->content, "values");
  EXPECT_EQ(Fetch(1, 2)->entries.size(), 3u);
}

TEST_F(LogSourceTest, ARestoreEndsWhenItsStateIsStored) {
  LogSource& source = Source();
  Metrics metrics;
  GroupLogOptions options;
  options.on_work = [] {};
  GroupCommitLog log(std::move(options), clock_, storage_, metrics);
  TermKeeper terms({.standbys = 1, .random = [] { return 7; }}, storage_, source);
  const auto end = [&](bool replaced, bool stored) {
    return terms.OnRestoreEnd(replaced, stored, {log, /*initialised=*/true});
  };
  const auto paused = [&] { return Fetch(1, 0).status().code() == StatusCode::kUnavailable; };
  ASSERT_TRUE(terms.OnRestoreBegin().ok());
  EXPECT_TRUE(paused());
  ASSERT_TRUE(end(/*replaced=*/false, /*stored=*/false).ok());
  EXPECT_FALSE(paused());
  EXPECT_EQ(source.term(), Of(1));
  ASSERT_TRUE(terms.OnRestoreBegin().ok());
  ASSERT_TRUE(end(true, false).ok());
  EXPECT_TRUE(paused());
  // A checkpoint stores the state later, but the term cannot be stored.
  storage_.set_status = ResourceExhausted("the disk is full");
  EXPECT_FALSE(end(true, true).ok());
  EXPECT_FALSE(terms.OnRestoreBegin().ok());
  EXPECT_TRUE(paused()) << "the source sends the new state as the old term";
  storage_.set_status = OkStatus();
  ASSERT_TRUE(end(true, true).ok());
  EXPECT_FALSE(paused());
  EXPECT_EQ(source.term(), Of(2));
}

// The caller of the first request had given up before the checkpoint was written.
TEST_F(LogSourceTest, ACheckpointThatWasWrittenForAReplicaIsNotWrittenAgain) {
  LogSource& source = Source(/*standbys=*/0);
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", std::string(5 << 20, 'a')).ok());
  storage_.has_checkpoint = storage_.delta = true;
  ASSERT_TRUE(source.FetchCheckpoint(kReplica, 1, 0).ok());
  EXPECT_EQ(saves_, 1);
  storage_.delta = true;
  const auto again = source.FetchCheckpoint(kReplica, 1, 0);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record, "record");
  EXPECT_EQ(saves_, 1);
  // A replica that continued meanwhile, and one that comes much later, get a new checkpoint.
  ASSERT_TRUE(source.Fetch({kReplica, 1, Of(1), true, 0}, Time::min()).ok());
  ASSERT_TRUE(source.FetchCheckpoint(kReplica, 1, 0).ok());
  EXPECT_EQ(saves_, 2);
  storage_.delta = true;
  clock_.Advance(std::chrono::minutes(2));
  ASSERT_TRUE(source.FetchCheckpoint(kReplica, 1, 0).ok());
  EXPECT_EQ(saves_, 3);
}

// Pushes of an async job continue while the standby is away, so each checkpoint is soon outdated.
TEST_F(LogSourceTest, NoCheckpointIsWrittenForAReplicaWhileTheOnlyStandbyIsAway) {
  LogSource& source = Source();
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", "values").ok());
  storage_.has_checkpoint = outdated_ = true;
  ASSERT_TRUE(Fetch(1, 0).ok());
  for (int attempt = 0; attempt < 3; ++attempt) {
    Write(1);
    const Status early = source.FetchCheckpoint(kReplica, 5, 0).status();
    EXPECT_EQ(early.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(early.message()), HasSubstr("[TD4028]"));
  }
  EXPECT_EQ(saves_, 0);
  ASSERT_TRUE(Fetch(1, 3).ok());  // the standby is back
  EXPECT_EQ(source.FetchCheckpoint(kReplica, 5, 0)->content, "values");
  EXPECT_EQ(saves_, 1);
}

TEST_F(LogSourceTest, OneCheckpointServesSeveralReplicas) {
  LogSource& source = Source(/*standbys=*/0);
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", "values").ok());
  storage_.has_checkpoint = outdated_ = true;
  Write(3);
  for (uint64_t replica = 1; replica <= 3; ++replica) {
    ASSERT_TRUE(source.FetchCheckpoint(kReplica, replica, 0).ok());
    ASSERT_TRUE(source.FetchCheckpoint(kReplica, replica, 0).ok());  // the first reply was lost
  }
  EXPECT_EQ(saves_, 1);
  clock_.Advance(std::chrono::seconds(11));
  ASSERT_TRUE(source.FetchCheckpoint(kReplica, 4, 0).ok());
  EXPECT_EQ(saves_, 2);
  source.BeginTerm(Of(2), number_);
  ASSERT_TRUE(source.FetchCheckpoint(kReplica, 5, 0).ok());
  EXPECT_EQ(saves_, 3) << "the checkpoint may have another state";
}

// A standby may have acknowledged entries that an earlier checkpoint lacks.
TEST_F(LogSourceTest, AStandbyWithAStateGetsACheckpointThatHasItsEntries) {
  LogSource& source = Source(2);
  ASSERT_TRUE(WriteTextFile(dir_.path() + "/values", "values").ok());
  storage_.has_checkpoint = true;
  Write(5);
  const auto join = [&](uint64_t after) {
    clock_.Advance(std::chrono::milliseconds(1));
    (void)Fetch(1, after, /*term=*/0);  // an earlier term, so the state does not continue
    clock_.Advance(std::chrono::milliseconds(1));
    return source.FetchCheckpoint(1, 1, 0).status();
  };
  ASSERT_TRUE(join(3).ok());
  ASSERT_TRUE(join(3).ok());
  EXPECT_EQ(saves_, 1) << "nothing changed between both requests";
  ASSERT_TRUE(Fetch(1, 4).ok());
  ASSERT_TRUE(join(4).ok());
  EXPECT_EQ(saves_, 2);
}

}  // namespace
}  // namespace tandem::pserver
