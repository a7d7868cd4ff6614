#include "trainer/monitoring/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ProgressTest : public testing::Test {
 protected:
  std::unique_ptr<Progress> Make(ProgressOptions options) {
    return std::make_unique<Progress>(
        std::move(options), [this](std::string_view text) { writes_.emplace_back(text); }, clock_);
  }
  std::string All() const {
    std::string all;
    for (const auto& w : writes_) all += w;
    return all;
  }
  // Returns the lines that a terminal shows after the output of `text`, without trailing blanks.
  // Carriage returns take effect.
  static std::vector<std::string> Screen(const std::string& text) {
    std::vector<std::string> lines = {""};
    size_t column = 0;
    for (char c : text) {
      if (c == '\n') {
        lines.emplace_back(), column = 0;
      } else if (c == '\r') {
        column = 0;
      } else {
        auto& line = lines.back();
        if (column >= line.size()) line.resize(column + 1, ' ');
        line[column++] = c;
      }
    }
    for (auto& line : lines) line.resize(line.find_last_not_of(' ') + 1);
    return lines;
  }

  FakeClock clock_;
  std::vector<std::string> writes_;
};

TEST_F(ProgressTest, FleetLineIsTheSeeds) {
  const auto progress = Make({.format = LogFormat::kFleet, .first_step = 3, .log_every_steps = 1});
  progress->Report({.step = 3, .samples = 533641315, .loss = 6.501647, .train_seconds = 1e6});
  EXPECT_EQ(All(), "worker_index: 0, step3 cost = 6.501647, speed: 533.641315\n");
}

TEST_F(ProgressTest, FleetSpeedIsSinceTheLineBefore) {
  const auto progress =
      Make({.format = LogFormat::kFleet, .worker_index = 2, .log_every_steps = 2});
  for (int step = 0; step < 4; ++step) {
    clock_.Advance(std::chrono::milliseconds(step < 2 ? 100 : 50));
    progress->Report({.step = step, .samples = 8, .loss = 0.5});
  }
  EXPECT_EQ(All(),
            "worker_index: 2, step1 cost = 0.500000, speed: 80.000000\n"
            "worker_index: 2, step3 cost = 0.500000, speed: 160.000000\n");
}

TEST_F(ProgressTest, PlainLines) {
  const auto progress = Make({.steps_total = 5, .log_every_steps = 2});
  EXPECT_EQ(progress->format(), LogFormat::kPlain);
  for (int step = 0; step < 5; ++step) {
    clock_.Advance(std::chrono::milliseconds(500));
    progress->Report({.step = step,
                      .epoch = step / 3,
                      .samples = 64,
                      .loss = 2.5 - step,
                      .metric_name = "accuracy",
                      .metric = 0.25,
                      .data_wait_seconds = 0.1 * step});
  }
  progress->Result("eval", 1, {{"loss", 0.5}, {"accuracy", 0.75}});
  progress->Message("one\x1b[31m line");
  progress->Finish();
  EXPECT_EQ(All(),
            "step=2 total=5 epoch=0 loss=1.500000 accuracy=0.250000 it_per_s=2.00 "
            "samples_per_s=128.0 eta_s=2 data_wait=0.1000\n"
            "step=4 total=5 epoch=1 loss=-0.500000 accuracy=0.250000 it_per_s=2.00 "
            "samples_per_s=128.0 eta_s=0 data_wait=0.2000\n"
            "step=5 total=5 epoch=1 loss=-1.500000 accuracy=0.250000 it_per_s=2.00 "
            "samples_per_s=128.0 eta_s=0 data_wait=0.2000\n"
            "eval epoch=1 loss=0.500000 accuracy=0.750000\n"
            "one?[31m line\n");
}

TEST_F(ProgressTest, ALineOfAStreamHasItsLatenessAndItsWindow) {
  StepReport report{.step = 0, .samples = 1, .loss = 1, .metric_name = "auc", .metric = 0.5};
  report.stream = {.records = 8, .skipped = 1, .removed = 0};
  {
    const auto progress = Make({.log_every_steps = 1});
    progress->Report(report);
    report.step = 1;
    report.stream->lateness_s = 2.25;
    report.stream->window = {.steps = 100, .loss = 0.5, .metric = 0.75};
    progress->Report(report);
    EXPECT_THAT(All(), AllOf(HasSubstr(" records=8 skipped=1\n"),
                             HasSubstr(" records=8 skipped=1 lateness_s=2.2 window_steps=100 "
                                       "window_loss=0.500000 window_auc=0.750000\n")));
    report.step = 2;
    report.stream->removed = 3;
    progress->Report(report);
    EXPECT_THAT(All(), HasSubstr(" records=8 skipped=1 removed=3 lateness_s=2.2 "));
  }
  writes_.clear();
  report.stream->removed = 3;
  const auto json = Make({.format = LogFormat::kJson, .log_every_steps = 1});
  json->Report(report);
  EXPECT_THAT(All(),
              HasSubstr("\"skipped\":1,\"removed\":3,\"lateness_s\":2.25,\"window_steps\":100,"
                        "\"window_loss\":0.5,\"window_auc\":0.75"));
}

TEST_F(ProgressTest, ALineHasTheChecksumOfTheParametersIfItWasComputed) {
  StepReport report{.step = 0, .samples = 1, .loss = 1};
  const auto plain = Make({.log_every_steps = 1});
  plain->Report(report);
  EXPECT_THAT(All(), Not(HasSubstr("params")));
  report.step = 1;
  report.params_checksum = 0x2a;
  plain->Report(report);
  EXPECT_THAT(All(), HasSubstr(" params=0000002a\n"));
  const auto json = Make({.format = LogFormat::kJson, .log_every_steps = 1});
  json->Report(report);
  EXPECT_THAT(All(), HasSubstr(R"("params":"0000002a")"));
}

TEST_F(ProgressTest, NothingButLinesWhenNotATerminal) {
  for (const LogFormat format : {LogFormat::kAuto, LogFormat::kBar, LogFormat::kPlain,
                                 LogFormat::kFleet, LogFormat::kJson}) {
    writes_.clear();
    const auto progress =
        Make({.format = format, .color = true, .steps_total = 3, .log_every_steps = 1});
    for (int step = 0; step < 3; ++step) progress->Report({.step = step, .samples = 1});
    progress->Message("done");
    progress->Finish();
    EXPECT_THAT(All(), Not(HasSubstr("\r")));
    EXPECT_THAT(All(), Not(HasSubstr("\x1b")));
    EXPECT_EQ(All().back(), '\n');
  }
}

TEST_F(ProgressTest, JsonLines) {
  const auto progress = Make({.format = LogFormat::kJson, .steps_total = 10, .log_every_steps = 1});
  clock_.Advance(std::chrono::seconds(1));
  progress->Report(
      {.step = 0, .samples = 4, .loss = std::nan(""), .metric_name = "accuracy", .metric = 1});
  progress->Result("eval", 2, {{"accuracy", 0.5}});
  progress->Message("a \"quoted\" \xff text");
  EXPECT_EQ(All(),
            "{\"step\":1,\"total\":10,\"epoch\":0,\"loss\":null,\"accuracy\":1.0,"
            "\"it_per_s\":1.0,\"samples_per_s\":4.0,\"eta_s\":9.0,\"data_wait\":0.0}\n"
            "{\"result\":\"eval\",\"epoch\":2,\"accuracy\":0.5}\n"
            "{\"message\":\"a \\\"quoted\\\" \xef\xbf\xbd text\"}\n");
}

TEST_F(ProgressTest, BarShowsWhereTheJobIs) {
  int columns = 140;
  const auto progress = Make({.is_terminal = true,
                              .columns = [&] { return columns; },
                              .name = "lenet",
                              .steps_total = 1000});
  EXPECT_EQ(progress->format(), LogFormat::kBar);
  clock_.Advance(std::chrono::seconds(10));
  const StepReport report{.step = 249,
                          .epoch = 3,
                          .samples = 64,
                          .loss = 0.41,
                          .metric_name = "accuracy",
                          .metric = 0.85,
                          .data_wait_seconds = 0.2};
  progress->Report(report);
  EXPECT_EQ(All(),
            "\rlenet  25%|######                  | 250/1000 [00:10<00:30, 25.0 it/s, "
            "loss=0.4100, accuracy=0.8500, 1600 samples/s, epoch 3, data wait 2%]");
  // On a narrower terminal the progress bar shows less. The bar must always fit and must never be
  // empty.
  for (columns = 139; columns > 1; --columns) {
    clock_.Advance(std::chrono::milliseconds(100));
    writes_.clear();
    progress->Report(report);
    ASSERT_EQ(writes_.size(), 1u);
    // The \r at the start of the text is not visible, so the line has at most columns - 1
    // characters.
    EXPECT_LE(writes_[0].size(), static_cast<size_t>(columns));
    EXPECT_EQ(writes_[0][1], 'l');
  }
}

// Ranks exchange their waiting times at intervals. The result names the slowest rank, and says how
// much less this rank waited in the last interval than the next slowest rank.
TEST_F(ProgressTest, TheSlowestRankIsNamed) {
  const auto bar = Make({.is_terminal = true, .columns = [] { return 200; }, .steps_total = 1000});
  const auto report = [&](int64_t step, std::vector<double> waited) {
    clock_.Advance(std::chrono::seconds(10));
    writes_.clear();
    bar->Report({.step = step, .samples = 64, .waited_by_rank = std::move(waited)});
    return All();
  };
  EXPECT_THAT(report(9, {}), Not(HasSubstr("slowest")));
  EXPECT_THAT(report(19, {5, 5, 1}), Not(HasSubstr("slowest"))) << "since when is not known";
  EXPECT_THAT(report(29, {8, 7, 1}), HasSubstr("samples/s, slowest rank 2 (+20%), "));
  EXPECT_THAT(report(39, {8, 7, 1}), HasSubstr("slowest rank 2 (+20%)")) << "no exchange since";
  EXPECT_THAT(report(49, {8.2, 9, 3}), HasSubstr("slowest rank 0 (+9%)"));
  EXPECT_THAT(report(59, {9, 10, 4}), Not(HasSubstr("slowest"))) << "all waited the same";
}

TEST_F(ProgressTest, AStarvingReaderIsNamedOnceWithWhatToDo) {
  const auto progress =
      Make({.format = LogFormat::kPlain, .steps_total = 100, .log_every_steps = 1});
  double waited = 0;
  const auto told = [&](int64_t step, double wait) {
    clock_.Advance(std::chrono::seconds(2));
    waited += wait;
    writes_.clear();
    progress->Report({.step = step, .samples = 1, .data_wait_seconds = waited});
    return All().find("steps wait for data") != std::string::npos;
  };
  EXPECT_FALSE(told(0, 1.9)) << "the first batch has to be read";
  EXPECT_FALSE(told(1, 0.5));
  EXPECT_FALSE(told(2, 0.1)) << "one that comes late now and then";
  EXPECT_FALSE(told(3, 0.5));
  EXPECT_FALSE(told(4, 0.5));
  EXPECT_TRUE(told(5, 0.5));
  EXPECT_THAT(All(), HasSubstr("\ntraining steps wait for data 25 % of the time; hint: raise "
                               "data.reader_threads or data.queue_capacity"));
  EXPECT_FALSE(told(6, 0.5)) << "once";
}

TEST_F(ProgressTest, RedrawsAtMostTenTimesASecond) {
  const auto progress = Make({.is_terminal = true, .steps_total = 100000});
  for (int step = 0; step < 2000; ++step) {
    clock_.Advance(std::chrono::milliseconds(1));
    progress->Report({.step = step, .samples = 1});
  }
  EXPECT_LE(writes_.size(), 20u);
  EXPECT_GE(writes_.size(), 19u);
}

TEST_F(ProgressTest, MessagesGoAboveTheBar) {
  const auto progress = Make({.is_terminal = true, .name = "job", .steps_total = 2});
  clock_.Advance(std::chrono::seconds(1));
  progress->Report({.step = 0, .samples = 1, .loss = 1});
  progress->Message("hint: x");
  clock_.Advance(std::chrono::seconds(1));
  progress->Report({.step = 1, .samples = 1, .loss = 0.5});
  progress->Finish();
  progress->Finish();
  const auto screen = Screen(All());
  ASSERT_EQ(screen.size(), 3u) << All();
  EXPECT_EQ(screen[0], "hint: x");
  EXPECT_THAT(screen[1], HasSubstr("job 100%|"));
  EXPECT_THAT(screen[1], HasSubstr("2/2 [00:02<00:00, 1.0 it/s, loss=0.5000"));
  EXPECT_EQ(screen[2], "");
  progress->Report({.step = 1, .samples = 1});
  EXPECT_EQ(Screen(All()).size(), 3u) << "nothing is drawn after the end";
}

TEST_F(ProgressTest, ColorOnlyWhereAsked) {
  for (const bool color : {false, true}) {
    writes_.clear();
    const auto progress = Make({.is_terminal = true, .color = color, .steps_total = 2});
    progress->Report({.step = 1, .samples = 1});
    EXPECT_EQ(All().find('\x1b') != std::string::npos, color);
  }
}

TEST_F(ProgressTest, DueSaysWhetherAReportWouldPrint) {
  const auto progress = Make({.format = LogFormat::kPlain, .steps_total = 7, .log_every_steps = 3});
  std::string due;
  for (int step = 0; step < 7; ++step) due += progress->Due(step) ? '1' : '0';
  EXPECT_EQ(due, "0010011");
  // Runs of two steps end with steps 1, 3 and 5. A line is due for the run that includes step 2,
  // and for the run that includes step 5.
  EXPECT_FALSE(progress->Due(1, 2));
  EXPECT_TRUE(progress->Due(3, 2));
  EXPECT_TRUE(progress->Due(5, 2));
}

TEST(LogFormat, Names) {
  EXPECT_EQ(*ParseLogFormat("fleet"), LogFormat::kFleet);
  EXPECT_EQ(*ParseLogFormat("auto"), LogFormat::kAuto);
  EXPECT_THAT(ParseLogFormat("plian").status().message(), HasSubstr("did you mean \"plain\""));
  EXPECT_FALSE(ParseLogFormat("").ok());
}

}  // namespace
}  // namespace tandem::trainer
