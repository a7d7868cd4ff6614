// Fuzz target: job files with a strategy. The target parses, checks and saves a job file, and reads
// the saved file again.
#include "common/base/check.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "common/strategy/validate.h"
#include "proto/job.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/job_text.h"

namespace tandem {
namespace {

bool Accepts(std::string_view input) {
  JobConfig job;
  strategy::Origins origins;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto({"job.pbtxt", std::string(input)}, &job, &origins, &diagnostics);
  const bool parsed = diagnostics.ok();
  strategy::ValidateStrategy(job.strategy(), {strategy::TrainMode::kPserver, strategy::Origin(), 0},
                             origins, "strategy", &diagnostics);
  CHECK(diagnostics.ok() || !diagnostics.ErrorText().empty());
  // If parsing fails, the fields before the error must still be savable.
  const std::string once = strategy::SaveText(job);
  JobConfig again;
  strategy::Diagnostics none;
  strategy::ParseTextProto({"again", once}, &again, nullptr, &none);
  CHECK_EQ(none.ErrorText(), "");
  CHECK_EQ(strategy::SaveText(again), once);
  return parsed;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{kJobText}, {std::begin(kJobPieces), std::end(kJobPieces)}, Accepts};
}

}  // namespace tandem
