// A small job with a table whose rows only the pservers have.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/tensor/device.h"
#include "tests/support/process_test_util.h"
#include "trainer/files/safetensors.h"

namespace tandem {

// Writes records of random clicks, and jobs of DeepFM on them.
class RowTest : public JobTest {
 protected:
  static constexpr int kIds = 200;  // ids of each of the three columns

  void SetUp() override {
    JobTest::SetUp();
    std::mt19937 dice(7);
    std::string text = "click,c0,c1,c2";
    for (int i = 0; i < 2000; ++i) {
      text +=
          absl::StrFormat("\n%d,%d,%d,%d", dice() % 2, dice() % kIds, dice() % kIds, dice() % kIds);
    }
    Write("train.csv", text + "\n");
  }
  // `init`: text in model { }; `rate`: learning rate; `epochs`: each has 31 steps.
  void WriteJob(const std::string& init, const std::string& rate, int epochs = 1) const {
    Write("job.pbtxt", absl::StrFormat(R"(
name: "rows"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "600" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "8" }
  arg { name: "distributed" value: "1" }
  %s
}
data {
  format: "csv"
  dir: "."
  csv {
    train_file: "train.csv"
    test_file: "train.csv"
    label_column: "click"
    positive_label: "1"
    negative_label: "0"
    column { name: "c0" kind: HASH ids: 200 }
    column { name: "c1" kind: HASH ids: 200 }
    column { name: "c2" kind: HASH ids: 200 }
  }
}
optimizer { type: "adagrad" learning_rate: %s }
global_batch_size: 64
epochs: %d
)",
                                       init, rate, epochs));
  }
  std::vector<std::string> Args(const std::string& name, int steps) const {
    return {"--steps_max=" + std::to_string(steps), "--checkpoint.dir=" + Path(name)};
  }
  // Exports the newest checkpoint of a job. Returns the arrays NAME/ids and NAME/rows of its
  // tables.
  trainer::TensorMap Export(const std::string& name, const std::string& file) {
    ChildProcess tandem("tandem", {"export", Path(name), Path(file), "--rows=full"}, {},
                        Path(file + ".out"));
    EXPECT_EQ(tandem.Wait(), 0) << tandem.Output();
    auto read = trainer::ReadSafetensors(Path(file), host_);
    EXPECT_TRUE(read.ok()) << read.status();
    std::erase_if(read->tensors, [](const auto& t) { return t.first.find('/') == t.first.npos; });
    EXPECT_GT(read->tensors.size(), 1u);
    return std::move(read->tensors);
  }

  CpuDevice host_;
};

}  // namespace tandem
