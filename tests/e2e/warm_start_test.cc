// Tests jobs whose tables begin with the rows of a file (model.init): the pservers have exactly
// these rows, a restarted job keeps what it has trained, and wrong files are rejected.
#include <signal.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/e2e/row_fixture.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class WarmStartTest : public RowTest {
 protected:
  static std::string InitOf(const trainer::TensorMap& rows, const std::string& file) {
    std::string init;
    for (const auto& [name, tensor] : rows) {
      if (!name.ends_with("/ids")) continue;
      init += absl::StrFormat("init { table: \"%s\" file: \"%s\" }\n",
                              name.substr(0, name.size() - 4), file);
    }
    return init;
  }
  // Runs a job that must fail, and returns its output.
  std::string Failure(const std::string& init) {
    WriteJob(init, "0.1");
    const std::string name = "bad" + std::to_string(failures_++);
    auto job = StartJob(name, {"--servers=2", "--workers=2"}, Args(name, 5));
    EXPECT_NE(job->Wait(), 0);
    return job->Output() + ReadWholeFile(Path(name + ".log/workerlog.0"));
  }

  int failures_ = 0;
};

TEST_F(WarmStartTest, TheTablesBeginWithTheRowsOfTheFile) {
  WriteJob("", "0.1");
  RunJob("first", {"--servers=2", "--workers=2"}, Args("first", 20));
  const trainer::TensorMap trained = Export("first", "rows.safetensors");
  ASSERT_FALSE(HasFailure());
  // A learning rate near 0 leaves each row as the file has it. The first batch needs rows that the
  // file has, and no others.
  WriteJob(InitOf(trained, "rows.safetensors"), "1e-30");
  const JobRun warm = RunJob("warm", {"--servers=3", "--workers=2"}, Args("warm", 1));
  EXPECT_EQ(warm.exit_code, 0) << warm.output;
  const trainer::TensorMap begun = Export("warm", "warm.safetensors");
  ASSERT_EQ(begun.size(), trained.size());
  for (const auto& [name, tensor] : trained) {
    const auto it = begun.find(name);
    ASSERT_NE(it, begun.end()) << name;
    ASSERT_EQ(it->second.bytes(), tensor.bytes()) << name;
    EXPECT_EQ(std::memcmp(it->second.data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST_F(WarmStartTest, ARestartedJobDoesNotLoadTheFileAgain) {
  WriteJob("", "0.1");
  RunJob("first", {"--servers=1", "--workers=2"}, Args("first", 20));
  const std::string init = InitOf(Export("first", "rows.safetensors"), "rows.safetensors");
  WriteJob(init, "0.1", 10);
  const auto launch = [&](const std::string& data) -> std::vector<std::string> {
    return {"--servers=2", "--workers=2", "--pserver_data_dir=" + Path(data),
            "--durability=logged"};
  };
  const std::vector<std::string> steps = {"--steps_max=300"};
  const JobResult whole = RunJob("whole", launch("whole-data"), steps).result;
  // All processes of the job are killed, so no trainer has completed it.
  auto half = StartJob("half", launch("half-data"), steps);
  ASSERT_TRUE(WaitUntil([&] { return StepOf(*half) > 5 || half->Ended(); }));
  half->Signal(SIGKILL);
  half->Wait();
  // The file is not needed any more.
  std::filesystem::remove(Path("rows.safetensors"));
  const JobResult second = RunJob("second", launch("half-data"), steps).result;
  EXPECT_LT(second.steps, 300);
  EXPECT_EQ(second.params_sha256, whole.params_sha256);
  WriteJob("", "0.1", 10);
  EXPECT_NE(RunJob("cold", launch("cold-data"), steps).result.params_sha256, whole.params_sha256);
}

TEST_F(WarmStartTest, WrongFilesAreRefused) {
  WriteJob("", "0.1");
  RunJob("first", {"--servers=1", "--workers=2"}, Args("first", 2));
  const std::string init = InitOf(Export("first", "rows.safetensors"), "FILE");
  ASSERT_FALSE(HasFailure());
  const size_t end = init.find('}') + 1;
  const auto with = [&](const std::string& file, const std::string& text) {
    if (!text.empty()) Write(file, text);
    std::string one = init.substr(0, end);
    return Failure(one.replace(one.find("FILE"), 4, file));
  };
  EXPECT_THAT(with("absent.csv", ""), HasSubstr("absent.csv: cannot be opened"));
  EXPECT_THAT(with("wide.csv", "1,2,3,4,5,6,7,8,9\n"), HasSubstr("line 1 has 8 values"));
  EXPECT_THAT(Failure("init { table: \"nothing\" file: \"wide.csv\" }"),
              HasSubstr("table \"nothing\" of "));
  EXPECT_THAT(Failure(init.substr(0, end) + init.substr(0, end)), HasSubstr("has two files"));
}

}  // namespace
}  // namespace tandem
