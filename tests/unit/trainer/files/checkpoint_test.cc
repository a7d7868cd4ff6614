#include "trainer/files/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/unit/trainer/test_files.h"

namespace tandem::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointTest : public testing::Test {
 protected:
  Tensor Make(float value) {
    auto tensor = Tensor::Make({DType::kF32, {2, 2}}, device_);
    CHECK(tensor.ok());
    for (float& v : tensor->span<float>()) v = value++;
    return *tensor;
  }
  Checkpoint At(uint64_t step) {
    return {.job = "job",
            .step = step,
            .epoch = step / 10,
            .epoch_step = step % 10,
            .seed = 5,
            .job_config = "name: \"job\"\n",
            .epoch_steps = 10,
            .params = {{"fc_0.w", Make(static_cast<float>(step))}},
            .state = {{"fc_0.w@velocity", Make(0.5f)}}};
  }
  void Save(CheckpointStore& store, uint64_t step) {
    const Status status = store.Save(At(step), &warnings_);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Returns the step of the newest usable checkpoint. Expects that the tensors of the checkpoint
  // belong to that step.
  uint64_t Newest(const CheckpointStore& store) {
    warnings_.clear();
    const auto checkpoint = store.LoadNewest(device_, &warnings_);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (!checkpoint.ok()) return ~uint64_t{0};
    EXPECT_EQ(checkpoint->params.at("fc_0.w").span<float>()[3],
              static_cast<float>(checkpoint->step) + 3);
    return checkpoint->step;
  }
  std::string File(uint64_t step, const std::string& name) {
    return absl::StrFormat("%s/step-%08d/%s", dir_.path(), step, name);
  }

  CpuDevice device_;
  TempDir dir_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointTest, RoundTrip) {
  CheckpointStore store(dir_ / "new/deep", 3);
  EXPECT_EQ(store.LoadNewest(device_, &warnings_).status().code(), StatusCode::kNotFound);
  Save(store, 23);
  const auto back = store.LoadNewest(device_, &warnings_);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->job, "job");
  EXPECT_EQ(back->step, 23u);
  EXPECT_EQ(back->epoch, 2u);
  EXPECT_EQ(back->epoch_step, 3u);
  EXPECT_EQ(back->epoch_steps, 10u);
  EXPECT_EQ(back->seed, 5u);
  EXPECT_EQ(back->job_config, "name: \"job\"\n");
  EXPECT_EQ(*Sha256Params(back->params), *Sha256Params(At(23).params));
  EXPECT_EQ(*Sha256Params(back->state), *Sha256Params(At(23).state));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  CheckpointStore store(dir_.path(), 2);
  for (uint64_t step : {5, 10, 15, 20}) Save(store, step);
  EXPECT_THAT(*store.Steps(), ElementsAre(15, 20));
  Save(store, 20);  // a step that is already stored may be saved again
  EXPECT_THAT(*store.Steps(), ElementsAre(15, 20));
  EXPECT_EQ(Newest(store), 20u);
  // A run that resumed from an earlier step must not remove the checkpoint that it has just
  // written. It must also keep checkpoints of later steps of another run.
  Save(store, 7);
  EXPECT_THAT(*store.Steps(), ElementsAre(7, 15, 20));
  Save(store, 123456789);
  EXPECT_THAT(*store.Steps(), ElementsAre(20, 123456789));
  EXPECT_THAT(warnings_, IsEmpty());
}

// Simulates the states of the directory after a crash at each stage of Save(). An older checkpoint
// is always complete.
TEST_F(CheckpointTest, CrashInTheMiddleLeavesThePreviousOne) {
  CheckpointStore store(dir_.path(), 5);
  Save(store, 10);
  const std::string tmp = dir_ / "step-00000020.tmp";
  fs::create_directory(tmp);
  EXPECT_EQ(Newest(store), 10u);
  WriteFile(tmp + "/model.safetensors", ReadFile(File(10, "model.safetensors")).substr(0, 40));
  EXPECT_EQ(Newest(store), 10u);
  for (const char* name : {"model.safetensors", "state.safetensors", "manifest.pbtxt"}) {
    WriteFile(tmp + "/" + name, ReadFile(File(10, name)));
    EXPECT_EQ(Newest(store), 10u) << name;
  }
  EXPECT_THAT(warnings_, IsEmpty()) << "an interrupted write is nothing to warn of";
  Save(store, 30);
  EXPECT_FALSE(fs::exists(tmp)) << "leftovers go away";
  // Simulates an interrupted removal of a checkpoint: only the manifest is removed.
  fs::remove(File(30, "manifest.pbtxt"));
  EXPECT_EQ(Newest(store), 10u);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CheckpointTest, DamagedOnesAreFoundOutAndPassedOver) {
  const auto flip = [](const std::string& whole, size_t at) {
    std::string text = whole;
    text.at(at) = static_cast<char>(text[at] ^ 1);
    return text;
  };
  const auto replace = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string model = "model.safetensors", state = "state.safetensors",
                    manifest = "manifest.pbtxt";
  const struct {
    const char* what;
    std::string file;
    std::function<std::string(std::string)> damage;  // new content of the file; "": removes it
    const char* warning;
  } cases[] = {
      {"one bit", model, [&](std::string s) { return flip(s, s.size() - 1); }, "sha256"},
      {"one bit in the state", state, [&](std::string s) { return flip(s, 20); }, "sha256"},
      {"cut", model, [&](std::string s) { return s.substr(0, s.size() - 1); },
       "bytes, but the manifest"},
      {"longer", state, [&](std::string s) { return s + "x"; }, "bytes, but the manifest"},
      {"absent", state, [&](std::string) { return ""; }, "cannot be opened"},
      {"no manifest", manifest, [&](std::string) { return ""; }, "cannot be opened"},
      {"manifest cut", manifest, [&](std::string s) { return s.substr(0, 60); }, "damaged"},
      {"manifest is binary", manifest, [&](std::string) { return std::string(50, '\0'); },
       "damaged"},
      {"later format", manifest,
       [&](std::string s) { return replace(s, "format: 1", "format: 2"); },
       "format 2, but this program reads format 1"},
      {"step of another", manifest,
       [&](std::string s) { return replace(s, "step: 20", "step: 21"); },
       "is for another step, 21"},
      {"file outside", manifest,
       [&](std::string s) { return replace(s, "model.safe", "../step-00000010/model.safe"); },
       "is not allowed"},
      {"absolute name", manifest,
       [&](std::string s) { return replace(s, "model.safetensors", "/etc/passwd"); },
       "is not allowed"},
      {"hidden name", manifest,
       [&](std::string s) { return replace(s, "model.safetensors", ".."); }, "is not allowed"},
      {"model not listed", manifest,
       [&](std::string s) { return replace(s, "model.safetensors", "state.safetensors"); },
       "manifest"},
  };
  for (const auto& c : cases) {
    fs::remove_all(dir_.path());
    CheckpointStore store(dir_.path(), 5);
    Save(store, 10);
    Save(store, 20);
    const std::string file = File(20, c.file), damaged = c.damage(ReadFile(file));
    if (damaged.empty()) {
      fs::remove(file);
    } else {
      WriteFile(file, damaged);
    }
    EXPECT_EQ(Newest(store), 10u) << c.what;
    ASSERT_EQ(warnings_.size(), 1u) << c.what;
    EXPECT_THAT(warnings_[0], HasSubstr("step 20 is ignored, because it cannot be read: "))
        << c.what;
    EXPECT_THAT(warnings_[0], HasSubstr(c.warning)) << c.what;
  }
}

TEST_F(CheckpointTest, NoneUsableIsAnErrorNotANewStart) {
  CheckpointStore store(dir_.path(), 5);
  Save(store, 10);
  WriteFile(File(10, "model.safetensors"), std::string("x"));
  const auto none = store.LoadNewest(device_, &warnings_);
  EXPECT_EQ(none.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(none.status().message(), HasSubstr("none of the 1 checkpoints"));
}

TEST_F(CheckpointTest, OtherNamesInTheFolderAreLeftAlone) {
  for (const char* name : {"step-", "step-1", "step-00000001x", "step-99999999999999999999999",
                           "other.tmp", "step-x.tmp", "notes"}) {
    fs::create_directory(dir_ / name);
  }
  CheckpointStore store(dir_.path(), 1);
  EXPECT_THAT(*store.Steps(), IsEmpty());
  Save(store, 1);
  Save(store, 2);
  EXPECT_THAT(*store.Steps(), ElementsAre(2));
  EXPECT_TRUE(fs::exists(dir_ / "other.tmp"));
  EXPECT_TRUE(fs::exists(dir_ / "step-x.tmp"));
}

// Two jobs in one directory would remove each other's checkpoints.
TEST_F(CheckpointTest, AFolderIsOfOneJobAtATime) {
  std::optional<CheckpointStore> first(std::in_place, dir_ / "kept", 1);
  ASSERT_EQ(first->Claim(), OkStatus());
  CheckpointStore second(dir_ / "kept", 1);
  const Status refused = second.Claim(Duration::zero());
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another process already writes"));
  EXPECT_EQ(CheckpointStore(dir_ / "other", 1).Claim(Duration::zero()), OkStatus());
  EXPECT_EQ(first->Save(At(1), &warnings_), OkStatus());
  first.reset();
  EXPECT_EQ(second.Claim(Duration::zero()), OkStatus());
}

TEST_F(CheckpointTest, UnwritableFolderIsNamed) {
  WriteFile(dir_ / "file", std::string("x"));
  CheckpointStore store(dir_ / "file/sub", 1);
  const Status status = store.Save(At(1), &warnings_);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("file/sub"));
  EXPECT_EQ(store.Prepare().code(), StatusCode::kNotFound);
  EXPECT_TRUE(CheckpointStore(dir_ / "a/b", 1).Prepare().ok());
  EXPECT_TRUE(fs::is_directory(dir_ / "a/b"));
  // An unreadable directory must not count as an empty directory, because the job must not start
  // from the beginning.
  CheckpointStore file(dir_ / "file", 1);
  const Status unreadable = file.LoadNewest(device_, &warnings_).status();
  EXPECT_EQ(unreadable.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(unreadable.message(), HasSubstr("cannot be read"));
}

TEST_F(CheckpointTest, OnlyItsOwnerReadsACheckpoint) {
  ASSERT_TRUE(fs::create_directory(dir_ / "given"));
  fs::permissions(dir_ / "given", fs::perms(0755));
  for (const char* name : {"made", "given"}) {
    CheckpointStore store(dir_ / name, 1);
    ASSERT_EQ(store.Save(At(1), &warnings_), OkStatus());
    EXPECT_EQ(fs::status(dir_ / name + std::string("/step-00000001")).permissions(),
              fs::perms::owner_all);
  }
  EXPECT_EQ(fs::status(dir_ / "made").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(dir_ / "given").permissions(), fs::perms(0755)) << "the user's to say";
}

TEST_F(CheckpointTest, AFolderThatOthersWriteIsRefused) {
  ASSERT_TRUE(fs::create_directory(dir_ / "open"));
  fs::permissions(dir_ / "open", fs::perms(0777));
  const Status refused = CheckpointStore(dir_ / "open", 1).Prepare();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("(mode 777) [TD2113]"));
  // A directory with the mode of a volume that Kubernetes assigns to a group.
  fs::permissions(dir_ / "open", fs::perms(02770));
  EXPECT_EQ(CheckpointStore(dir_ / "open", 1).Prepare(), OkStatus());
}

}  // namespace
}  // namespace tandem::trainer
