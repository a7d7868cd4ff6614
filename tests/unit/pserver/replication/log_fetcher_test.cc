// Tests LogFetcher with a fake primary and a fake state, without threads and network.
#include "pserver/replication/log_fetcher.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/codec/tensor_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/pserver.pb.h"
#include "pserver/wire/log_record.h"
#include "tests/support/temp_dir.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Next = LogFetcher::Next;

std::string Encoded(uint64_t number) {
  const codec::EncodedMessage message =
      EncodeLogEntry({number, CompleteRecord{{.job = "j", .trainer = static_cast<int>(number)}}});
  std::string bytes;
  for (const codec::EncodedMessage::Piece& p : message.pieces) bytes += p.owned;
  return bytes;
}

std::string ContentOf(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

class FakeState final : public StandbyState {
 public:
  explicit FakeState(std::string file) : file_(std::move(file)) {}
  Position position() const override { return here; }
  Status Append(std::vector<LogEntry> entries) override {
    for (const LogEntry& entry : entries) {
      steps.push_back("append " + std::to_string(entry.number));
      here.last = entry.number;
    }
    return OkStatus();
  }
  Status SetTerm(const LogTerm& term) override {
    steps.push_back("term " + std::to_string(term.number));
    here.term = term;
    return OkStatus();
  }
  StatusOr<std::string> NewValuesFile() override { return file_; }
  Status Install(const std::string& record, const std::string& path, const LogTerm& term) override {
    TD_RETURN_IF_ERROR(install);
    steps.push_back("install " + record + " " + ContentOf(path));
    here = {term, true, 3, /*complete=*/false};
    return OkStatus();
  }
  Status SetComplete() override {
    steps.push_back("complete");
    here.complete = true;
    return OkStatus();
  }

  Position here;
  Status install;
  std::vector<std::string> steps;  // changes of the state, in order

 private:
  const std::string file_;
};

class FakePrimary final : public PrimaryCalls {
 public:
  Status FetchLog(const FetchLogRequest& request, Duration timeout, FetchLogReply* reply) override {
    requests.push_back(request);
    EXPECT_GT(timeout, std::chrono::milliseconds(request.wait_ms()));
    *reply = log;
    return OkStatus();
  }
  Status FetchCheckpoint(const FetchCheckpointRequest& request, Duration /*timeout*/,
                         FetchCheckpointReply* reply) override {
    TD_RETURN_IF_ERROR(checkpoint);
    offsets.push_back(request.offset());
    reply->Clear();
    reply->set_history(7);
    reply->set_term(2);
    if (request.offset() == 0) reply->set_record("record");
    reply->set_bytes(values.size());
    reply->set_content(values.substr(request.offset(), part));
    return OkStatus();
  }
  bool stopped() const override { return offsets.size() >= parts_max; }

  FetchLogReply log;
  Status checkpoint;
  std::string values = "abcdefgh";
  size_t part = 3;  // bytes of a part
  size_t parts_max = 100;
  std::vector<FetchLogRequest> requests;
  std::vector<uint64_t> offsets;
};

class LogFetcherTest : public testing::Test {
 protected:
  LogFetcherTest() : file_(dir_.path() + "/values"), state_(file_) {
    primary_.log.set_history(7);
    primary_.log.set_term(1);
  }
  void HasState(uint64_t last) { state_.here = {{7, 1, 0}, true, last}; }
  StatusOr<Next> Fetch() { return fetcher_.FetchOnce(); }

  TempDir dir_;
  const std::string file_;
  FakeState state_;
  FakePrimary primary_;
  LogFetcher fetcher_{{.job = "j", .member = 2, .incarnation = 5}, state_, primary_};
};

TEST_F(LogFetcherTest, AppendsTheEntriesThatFollow) {
  HasState(4);
  primary_.log.add_entry(Encoded(5));
  primary_.log.add_entry(Encoded(6));
  const auto next = Fetch();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*next, Next::kNow);
  EXPECT_THAT(state_.steps, ElementsAre("append 5", "append 6"));
  const FetchLogRequest& request = primary_.requests.at(0);
  EXPECT_EQ(request.job(), "j");
  EXPECT_EQ(request.member(), 2u);
  EXPECT_EQ(request.incarnation(), 5u);
  EXPECT_EQ(request.history(), 7u);
  EXPECT_EQ(request.term(), 1u);
  EXPECT_EQ(request.after(), 4u);
  EXPECT_TRUE(request.has_state());
}

TEST_F(LogFetcherTest, StoresANewTermBeforeItsEntries) {
  HasState(4);
  primary_.log.set_term(3);
  primary_.log.add_entry(Encoded(5));
  ASSERT_TRUE(Fetch().ok());
  EXPECT_THAT(state_.steps, ElementsAre("term 3", "append 5"));
}

TEST_F(LogFetcherTest, ADamagedEntryIsNotAppended) {
  HasState(4);
  primary_.log.add_entry(Encoded(5));
  primary_.log.add_entry("?");
  EXPECT_EQ(Fetch().status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(state_.steps, IsEmpty());
}

TEST_F(LogFetcherTest, FetchesTheCheckpointInParts) {
  ASSERT_TRUE(Fetch().ok());  // the standby has no state
  EXPECT_THAT(primary_.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(state_.steps, ElementsAre("install record abcdefgh"));
  EXPECT_EQ(state_.here.term, (LogTerm{7, 2, 0}));
  primary_.log.set_needs_checkpoint(true);
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(state_.steps.size(), 2u);
}

TEST_F(LogFetcherTest, AFetchedStateIsCompleteWhenItHasReachedThePrimary) {
  ASSERT_TRUE(Fetch().ok());
  EXPECT_FALSE(state_.here.complete);
  state_.steps.clear();
  primary_.log.set_term(2);
  primary_.log.set_last(6);
  primary_.log.add_entry(Encoded(4));
  primary_.log.add_entry(Encoded(5));
  ASSERT_TRUE(Fetch().ok());
  EXPECT_THAT(state_.steps, ElementsAre("append 4", "append 5"));
  primary_.log.clear_entry();
  primary_.log.add_entry(Encoded(6));
  ASSERT_TRUE(Fetch().ok());
  EXPECT_THAT(state_.steps, ElementsAre("append 4", "append 5", "append 6", "complete"));
}

TEST_F(LogFetcherTest, AnIncompleteCheckpointIsNotInstalled) {
  primary_.part = 0;
  const Status empty = Fetch().status();
  EXPECT_EQ(empty.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("empty part of its checkpoint at offset 0"));
  EXPECT_THAT(state_.steps, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(LogFetcherTest, StopsBetweenTwoParts) {
  primary_.parts_max = 2;
  EXPECT_EQ(Fetch().status().code(), StatusCode::kCancelled);
  EXPECT_THAT(primary_.offsets, ElementsAre(0, 3));
  EXPECT_THAT(state_.steps, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(LogFetcherTest, AFailedInstallRemovesTheFile) {
  state_.install = DataLoss("damaged");
  const Status failed = Fetch().status();
  EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("fetching the checkpoint of the primary"));
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(LogFetcherTest, PausesWhileThePrimaryHasNoState) {
  primary_.checkpoint = NotFound("no checkpoint");
  const auto next = Fetch();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*next, Next::kPause);
  primary_.checkpoint = Unavailable("away");
  EXPECT_EQ(Fetch().status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::pserver
