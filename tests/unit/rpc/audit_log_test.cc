#include "common/rpc/audit_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "common/base/check.h"
#include "gmock/gmock.h"

namespace tandem::rpc {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class AuditLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tandem-audit-XXXXXX";
    dir_ = mkdtemp(pattern);
    path_ = dir_ + "/audit.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<AuditLog> Open(int64_t bytes_max = 1 << 20, int files_max = 3) {
    auto log = AuditLog::Open({path_, "pserver 3", bytes_max, files_max, std::chrono::seconds(1)},
                              clock_, metrics_);
    CHECK(log.ok()) << log.status();
    return *std::move(log);
  }
  static AuditRecord Record(const std::string& call, Status outcome, int port = 1) {
    return {"j",
            call,
            "spiffe://tandem/job/j/role/trainer",
            "trainer",
            "certificate",
            "ipv4:127.0.0.1:" + std::to_string(port),
            std::move(outcome)};
  }
  static std::vector<json> Lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<json> lines;
    for (std::string text; std::getline(file, text);) {
      lines.push_back(json::parse(text, nullptr, /*allow_exceptions=*/false));
      EXPECT_TRUE(lines.back().is_object()) << text;
    }
    return lines;
  }

  std::string dir_, path_;
  FakeClock clock_;
  Metrics metrics_;
};

TEST_F(AuditLogTest, SaysWhoDidWhatAndWhatCameOfIt) {
  const auto log = Open();
  log->Add(Record("Push", OkStatus()));
  log->Add(Record("RestoreCheckpoint", PermissionDenied("no \"admin\"\n\xff")));
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(std::regex_match(lines[0]["time"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  EXPECT_EQ(lines[0]["server"], "pserver 3");
  EXPECT_EQ(lines[0]["job"], "j");
  EXPECT_EQ(lines[0]["call"], "Push");
  EXPECT_EQ(lines[0]["caller"], "spiffe://tandem/job/j/role/trainer");
  EXPECT_EQ(lines[0]["role"], "trainer");
  EXPECT_EQ(lines[0]["proof"], "certificate");
  EXPECT_EQ(lines[0]["peer"], "ipv4:127.0.0.1:1");
  EXPECT_EQ(lines[0]["outcome"], "OK");
  EXPECT_EQ(lines[0]["count"], 1);
  EXPECT_FALSE(lines[0].contains("reason"));
  EXPECT_EQ(lines[1]["outcome"], "PERMISSION_DENIED");
  EXPECT_THAT(lines[1]["reason"].get<std::string>(), HasSubstr("no \"admin\"\n"));
}

TEST_F(AuditLogTest, EqualRecordsAreCounted) {
  auto log = Open();
  for (int i = 0; i < 1000; ++i) log->Add(Record("Push", OkStatus(), i));
  log->Add(Record("Push", Unauthenticated("wrong token")));
  ASSERT_EQ(Lines(path_).size(), 2u) << "the first of each kind at once";
  log.reset();
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 3u) << "and the rest at the end at the latest";
  EXPECT_EQ(lines[2]["call"], "Push");
  EXPECT_EQ(lines[2]["outcome"], "OK");
  EXPECT_EQ(lines[2]["count"], 999);
}

TEST_F(AuditLogTest, WhatWasCountedIsWrittenASecondLater) {
  const auto log = Open();
  for (int i = 0; i < 5; ++i) log->Add(Record("Push", OkStatus()));
  clock_.Advance(std::chrono::seconds(2));
  const Time deadline = SteadyNow() + std::chrono::seconds(20);
  while (Lines(path_).size() < 2 && SteadyNow() < deadline) {
  }
  ASSERT_EQ(Lines(path_).size(), 2u);
  EXPECT_EQ(Lines(path_)[1]["count"], 4);
}

TEST_F(AuditLogTest, RotatesAndRemovesTheOldest) {
  const auto log = Open(/*bytes_max=*/1000, /*files_max=*/3);
  for (int i = 0; i < 50; ++i) log->Add(Record("Call" + std::to_string(i), OkStatus()));
  int64_t lines = 0;
  for (const char* end : {"", ".1", ".2"}) {
    EXPECT_LE(std::filesystem::file_size(path_ + end), 1000u) << end;
    lines += static_cast<int64_t>(Lines(path_ + end).size());
  }
  EXPECT_GT(lines, 5);
  EXPECT_EQ(Lines(path_).back()["call"], "Call49");
  EXPECT_EQ(Lines(path_ + ".1").back()["call"], "Call" + std::to_string(49 - Lines(path_).size()));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
}

TEST_F(AuditLogTest, IsAppendedToAndReadByItsOwnerAlone) {
  std::ofstream(path_) << "{}\n";
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  Open()->Add(Record("Push", OkStatus()));
  EXPECT_EQ(Lines(path_).size(), 2u);
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto nowhere = AuditLog::Open({.path = dir_ + "/none/audit"}, clock_, metrics_);
  EXPECT_EQ(nowhere.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(nowhere.status().message()), HasSubstr("audit log " + dir_));
}

// Calls that write no audit line must not wait while another call writes its line.
TEST_F(AuditLogTest, ASlowDiskHoldsUpNoOtherCall) {
  // A pipe whose reader reads nothing accepts 64 KiB. After that, the write of a line blocks.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const Fd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  const auto log = Open();
  log->Add(Record("Push", OkStatus()));
  std::atomic<bool> written{false};
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) log->Add(Record(absl::StrFormat("Call%d", i), OkStatus()));
    written = true;
  });
  const Time end = SteadyNow() + std::chrono::seconds(60);
  int held = 0;
  while (held < 60'000 && SteadyNow() < end) {
    ASSERT_EQ(ioctl(reader.get(), FIONREAD, &held), 0);
    usleep(1000);
  }
  auto added = std::async(std::launch::async, [&] { log->Add(Record("Push", OkStatus())); });
  EXPECT_EQ(added.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(written);
  char bytes[4096];
  while (!written && SteadyNow() < end) {
    if (read(reader.get(), bytes, sizeof(bytes)) <= 0) usleep(1000);
  }
  writer.join();
}

// Lines of rejected calls must not displace the line of a call that changed the state when the log
// rotates its files.
TEST_F(AuditLogTest, AFloodOfRefusedCallsRotatesNothingAway) {
  const auto log = Open(/*bytes_max=*/100'000, /*files_max=*/3);
  log->Add({"j", "RestoreCheckpoint", "", "", "token", "ipv4:10.0.0.1:1", OkStatus()});
  const Status refused = FailedPrecondition("%s", std::string(100'000, 'x'));
  for (int i = 0; i < 5'000; ++i) {
    log->Add({"j", "SaveCheckpoint", "", "", "nothing",
              absl::StrFormat("ipv4:10.1.%d.%d:1", i / 250, i % 250), refused});
  }
  log->Add({"j", "Complete", "", "", "token", "ipv4:10.0.0.1:1", OkStatus()});
  const auto lines = Lines(path_);
  EXPECT_EQ(lines.front()["call"], "RestoreCheckpoint");
  EXPECT_EQ(lines.back()["call"], "Complete");
  EXPECT_LE(lines.size(), 150u);
  EXPECT_EQ(lines[1]["reason"].get<std::string>().size(), 256u);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
}

}  // namespace
}  // namespace tandem::rpc
