// Tests the status pages and metrics of a running job, as a browser and a scraper read them.
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class StatusTest : public JobTest {
 protected:
  static json Document(int port) {
    return json::parse(HttpGet(port, "/status.json"), nullptr, /*allow_exceptions=*/false);
  }
  static std::string Fact(const json& document, const std::string& name) {
    for (const auto& fact : document.value("facts", json::array())) {
      if (fact[0] == name) return fact[1];
    }
    return "no fact " + name;
  }
};

TEST_F(StatusTest, EveryProcessOfAJobShowsItself) {
  const int port = FreePort(4);
  const auto job =
      StartJob("watched", {"--servers=2", "--workers=2", "--status_port=" + std::to_string(port)},
               {"--steps_max=100000"});
  const std::string page = "http://127.0.0.1:" + std::to_string(port) + "/";
  ASSERT_TRUE(job->WaitForText("tandemrun: status page: " + page)) << job->Output();
  ASSERT_TRUE(WaitUntil([&] { return HttpGet(port, "/readyz") == "ready\n"; })) << job->Output();
  EXPECT_THAT(HttpGet(port, "/"), HasSubstr("</html>"));

  // The loss curve of the page must get more points between two requests.
  const auto points = [&] {
    const json series = Document(port).value("series", json::array());
    return series.empty() ? 0 : series[0]["points"].size();
  };
  ASSERT_TRUE(WaitUntil([&] { return points() >= 2; })) << Document(port).dump(1);
  const json trainer = Document(port);
  EXPECT_EQ(Fact(trainer, "state"), "training");
  EXPECT_EQ(Fact(trainer, "mode"), "PSERVER");
  EXPECT_EQ(Fact(trainer, "rank"), "0 of 2");
  EXPECT_EQ(Fact(Document(port + 1), "rank"), "1 of 2");
  EXPECT_THAT(HttpGet(port, "/metrics"), HasSubstr("\ntandem_step_seconds_bucket{le=\"0.001\"}"));

  for (const int server : {0, 1}) {
    const json document = Document(port + 2 + server);
    EXPECT_THAT(document.value("title", ""), HasSubstr("tandem-pserver " + std::to_string(server)));
    EXPECT_EQ(Fact(document, "state"), "serving");
    ASSERT_EQ(document["tables"].size(), 2u);
    EXPECT_EQ(document["tables"][0]["rows"].size(), 2u);  // The table has one row per trainer.
    EXPECT_EQ(document["tables"][0]["rows"][0][1], "at work");
    EXPECT_THAT(HttpGet(port + 2 + server, "/metrics"), HasSubstr("\ntandem_"));
  }
}

TEST_F(StatusTest, AJobThatEndsTakesItsPageAlong) {
  const int port = FreePort(1);
  const JobRun run =
      RunJob("short", {"--mode=local", "--status_port=" + std::to_string(port)}, {"--steps_max=5"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(HttpGet(port, "/"), "");
}

TEST_F(StatusTest, APortThatIsTakenIsNamed) {
  const int port = FreePort(2);
  const auto first = StartJob("first", {"--mode=local", "--status_port=" + std::to_string(port)},
                              {"--steps_max=100000"});
  ASSERT_TRUE(WaitUntil([&] { return HttpGet(port, "/healthz") == "ok\n"; })) << first->Output();
  const auto second =
      StartJob("second", {"--mode=local", "--status_port=" + std::to_string(port)}, {});
  EXPECT_EQ(second->Wait(), 69);
  EXPECT_THAT(second->Output(),
              HasSubstr("--status_port: 127.0.0.1:" + std::to_string(port) +
                        ", the port of the status page of trainer 0, is in use [TD1012]"));
}

}  // namespace
}  // namespace tandem
