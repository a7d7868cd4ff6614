// Runs the program `tandem` on a job, as an administrator does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process_test_util.h"

namespace tandem {

class TandemCommandTest : public JobTest {
 protected:
  struct Said {
    int code = -1;     // exit code
    std::string text;  // stdout and stderr
    nlohmann::json Json() const {
      return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    }
  };
  Said Tandem(const std::vector<std::string>& args) const {
    ChildProcess tandem("tandem", args, {}, Path("tandem.out"));
    Said said;
    said.code = tandem.Wait();
    said.text = tandem.Output();
    return said;
  }
};

}  // namespace tandem
