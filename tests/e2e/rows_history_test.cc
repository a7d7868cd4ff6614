// Tests `tandem rows history`, `tandem bisect` and `tandem restore --step`, which read the logs
// that pservers keep.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/e2e/row_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class HistoryTest : public RowTest {
 protected:
  std::vector<std::string> Launch(const std::string& data) const {
    return {"--servers=2",         "--workers=2",      "--pserver_data_dir=" + Path(data),
            "--durability=logged", "--log_keep_mb=64", "--max_restarts=4"};
  }
  json Tandem(const std::vector<std::string>& args) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"-o", "json"});
    ChildProcess tandem = Run(all);
    EXPECT_EQ(tandem.Wait(), 0) << tandem.Output();
    json answer = json::parse(tandem.Output(), nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << tandem.Output();
    return answer;
  }
  ChildProcess Run(const std::vector<std::string>& args) {
    return ChildProcess("tandem", args, {}, Path("tandem-" + std::to_string(commands_++)));
  }
  // Takes a snapshot of a running job. A busy machine may need several attempts. Returns its step.
  uint64_t Save(const std::string& log) {
    json answer;
    const bool saved = WaitUntil([&] {
      ChildProcess tandem("tandem", {"save", "--snapshot", log, "-o", "json"}, {},
                          Path("tandem-" + std::to_string(commands_++)));
      if (tandem.Wait() != 0) return false;
      answer = json::parse(tandem.Output(), nullptr, false);
      return answer.is_object();
    });
    EXPECT_TRUE(saved);
    return saved ? answer["pservers"][0]["version"].get<uint64_t>() : 0;
  }

  // Compares tandem bisect with the history of a row: the push after which the largest absolute
  // value of the row was reached. Returns false if the state before the history had it already.
  bool BisectFindsTheLargest(const std::string& data, const std::string& table,
                             const std::string& id, const json& history) {
    json largest;
    double most = -1, before = -1;
    for (const json& server : history) {
      for (const json& push : server["pushes"]) {
        if (push["values"].is_null()) continue;
        for (const json& value : push["values"]) {
          const double size = std::fabs(value.get<double>());
          if (size <= most) continue;
          if (push["version"] != largest["version"]) before = most;
          most = size;
          largest = push;
        }
      }
    }
    if (before < 0) return false;
    const json found = Tandem({"bisect", data, "--table=" + table, "--id=" + id,
                               absl::StrFormat("--above=%.17g", (most + before) / 2)});
    EXPECT_TRUE(found["found"].get<bool>()) << found;
    if (!found["found"].get<bool>()) return false;
    const json& server = found["pservers"][found["earliest"].get<size_t>()];
    if (server["holds"] == "from_the_start") return false;
    EXPECT_EQ(server["version"], largest["version"]) << found;
    EXPECT_EQ(found["restore_step"].get<uint64_t>() + 1, server["version"].get<uint64_t>());
    EXPECT_EQ(server["values"][0]["row_after"], largest["values"]) << found;
    EXPECT_NE(server["values"][0]["row_before"], largest["values"]);
    EXPECT_TRUE(std::ranges::any_of(server["pushes"], [&](const json& push) {
      return push["entry"] == largest["entry"] && push["trainer"] == largest["trainer"] &&
             push["gradient_norm"] == largest["gradient_norm"];
    })) << found;
    return true;
  }

  static std::string TableOf(const trainer::TensorMap& rows) {
    for (const auto& [name, tensor] : rows) {
      if (name.ends_with("/ids")) return name.substr(0, name.size() - 4);
    }
    return "";
  }

  int commands_ = 0;
};

TEST_F(HistoryTest, ThePushesOfARowEndWithItsValues) {
  WriteJob("", "0.05", 20);
  RunJob("first", {"--servers=1", "--workers=2"}, Args("first", 2));
  const std::string table = TableOf(Export("first", "first.safetensors"));
  auto job = StartJob("job", Launch("data"), Args("job", 400));
  ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) > 5 || job->Ended(); }));
  const uint64_t known = Save(Path("job.log"));
  // The log of a running job can be read too.
  EXPECT_THAT(Tandem({"rows", "history", Path("data"), table, "1"}).size(), 2);
  ASSERT_EQ(job->Wait(), 0) << job->Output();
  const trainer::TensorMap rows = Export("job", "rows.safetensors");
  ASSERT_FALSE(HasFailure());
  const auto ids = rows.at(table + "/ids").span<int64_t>();
  const auto values = rows.at(table + "/rows").span<float>();
  const size_t dim = values.size() / ids.size();
  size_t pushes = 0, bisected = 0;
  for (size_t i = 0; i < ids.size(); i += ids.size() / 5) {
    const json all = Tandem({"rows", "history", Path("data"), table, std::to_string(ids[i])});
    ASSERT_EQ(all.size(), 2u);
    json last;
    uint64_t before = 0;
    for (const json& server : all) {
      EXPECT_EQ(server["first_entry"].get<uint64_t>(), 1u);
      EXPECT_GT(server["values_from"].get<uint64_t>(), 1u);
      for (const json& push : server["pushes"]) {
        ++pushes;
        EXPECT_GT(push["entry"].get<uint64_t>(), before);
        before = push["entry"].get<uint64_t>();
        EXPECT_GT(push["gradient_norm"].get<double>(), 0);
        EXPECT_LT(push["trainer"].get<int>(), 2);
        EXPECT_FALSE(push["time"].get<std::string>().empty());
        // Values are known from the snapshot on.
        EXPECT_EQ(push["values"].is_null(), push["step"].get<uint64_t>() < known) << push;
        if (!push["version"].is_null()) {
          EXPECT_EQ(push["version"].get<uint64_t>(), push["step"].get<uint64_t>() + 1);
        }
        last = push;
      }
    }
    ASSERT_TRUE(last.is_object()) << ids[i];
    bisected += BisectFindsTheLargest(Path("data"), table, std::to_string(ids[i]), all);
    for (size_t v = 0; v < dim; ++v) {
      EXPECT_EQ(last["values"][v].get<float>(), values[i * dim + v]) << ids[i] << ", " << v;
    }
  }
  EXPECT_GT(pushes, 100u);
  EXPECT_GT(bisected, 0u);
  ChildProcess never = Run({"bisect", Path("data")});
  EXPECT_EQ(never.Wait(), 0);
  EXPECT_THAT(never.Output(), HasSubstr("the condition never holds"));
  ChildProcess typo = Run({"bisect", Path("data"), "--table=" + table + "x"});
  EXPECT_NE(typo.Wait(), 0);
  EXPECT_THAT(typo.Output(), HasSubstr("did you mean \"" + table + "\"?"));
  ChildProcess unknown = Run({"rows", "history", Path("data"), "nothing", "1"});
  EXPECT_NE(unknown.Wait(), 0);
  EXPECT_THAT(unknown.Output(), HasSubstr("no pserver has a table \"nothing\" [TD7008]"));
  ChildProcess elsewhere = Run({"rows", "history", Path("job"), table, "1"});
  EXPECT_NE(elsewhere.Wait(), 0);
  EXPECT_THAT(elsewhere.Output(), HasSubstr("has no directories of pservers [TD4011]"));
}

TEST_F(HistoryTest, AJobContinuesAtARestoredStep) {
  WriteJob("", "0.05", 40);
  const JobResult whole = RunJob("whole", Launch("whole-data"), {"--steps_max=1000"}).result;
  auto job = StartJob("job", Launch("data"), {"--steps_max=1000"});
  ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) > 5 || job->Ended(); }));
  const uint64_t first = Save(Path("job.log"));
  ASSERT_TRUE(
      WaitUntil([&] { return StepOf(*job) > static_cast<int>(first) + 60 || job->Ended(); }));
  ASSERT_FALSE(job->Ended()) << job->Output();
  ChildProcess late = Run({"restore", "--step=100000", Path("job.log")});
  EXPECT_NE(late.Wait(), 0);
  EXPECT_THAT(late.Output(), HasSubstr("the log ends at step"));
  ChildProcess restore = Run({"restore", "--step=" + std::to_string(first + 31), Path("job.log")});
  EXPECT_EQ(restore.Wait(), 0) << restore.Output();
  EXPECT_THAT(restore.Output(), HasSubstr("version " + std::to_string(first + 31)));
  // The trainers end, because they are at a later step. The next start continues at the step.
  EXPECT_NE(job->Wait(), 0) << job->Output();
  // A trainer that has pushed its step before the restore waits for the step. It learns of the
  // restore at once, and not by its time limit.
  EXPECT_THAT(job->Output(), HasSubstr("[TD4015]"));
  EXPECT_THAT(job->Output(), testing::Not(HasSubstr("[TD4007]")));
  const JobResult after = RunJob("again", Launch("data"), {"--steps_max=1000"}).result;
  EXPECT_EQ(after.steps, 1000 - static_cast<int64_t>(first + 31));
  EXPECT_EQ(after.params_sha256, whole.params_sha256);
}

}  // namespace
}  // namespace tandem
