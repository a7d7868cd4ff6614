// The parts that tests of jobs on emulated hosts share: a job with rows, its data, and its results.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/support/process_test_util.h"

namespace tandem {

// The ranks reduce the dense variables, and the pservers have the rows.
inline constexpr char kClicksJob[] = R"(
name: "hosts"
model {
  zoo: "wide_deep"
  arg { name: "fields" value: "2" }
  arg { name: "rows" value: "60" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "8" }
  arg { name: "sparse" value: "1" }
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
    column { name: "user" ids: 40 }
    column { name: "item" ids: 20 }
  }
}
optimizer { type: "adagrad" learning_rate: 0.05 }
)";

// Returns the file train.csv of kClicksJob with `samples` samples.
inline std::string ClicksFile(int samples) {
  std::string text = "click,user,item";
  for (int i = 0; i < samples; ++i) {
    text += absl::StrFormat("\n%d,%d,%d", i * i % 3 % 2, i * 7 % 40, i * i % 20);
  }
  return text;
}

// Returns the hash of the parameters in a file that a trainer wrote for --result_json; "": none.
inline std::string ParamsHash(const std::string& file) {
  const auto json = nlohmann::json::parse(ReadWholeFile(file), nullptr, false);
  return json.is_object() ? json.value("params_sha256", "") : "";
}

// Returns an output of a job without the lines of steps.
inline std::string WithoutSteps(const std::string& output) {
  std::istringstream lines(output);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("step=")) rest += line + "\n";
  }
  return rest;
}

}  // namespace tandem
