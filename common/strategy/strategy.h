// The effective configuration: overrides from flags and environment on top of a file, checks of the
// strategy, and its text form. Works by reflection on any message that is, or holds, a
// DistributedStrategy (proto/strategy.proto), such as JobConfig.
//
//   JobConfig job;  Origins origins;  Diagnostics diagnostics;
//   TD_RETURN_IF_ERROR(LoadTextProto(path, &job, &origins, &diagnostics));
//   ApplyEnvironment(&job, environment, &origins, &diagnostics);
//   TD_RETURN_IF_ERROR(ApplyOverride(&job, "a_sync", "true", FlagOrigin("a_sync"), &origins));
//   ValidateStrategy(job.strategy(), context, origins, "strategy", &diagnostics);
//   TD_RETURN_IF_ERROR(diagnostics.status());
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"

namespace google::protobuf {
class Message;
}

namespace tandem {

class DistributedStrategy;

// The numbers of tandem.Mode (proto/job.proto).
enum class TrainMode { kLocal = 0, kPserver = 1, kCollective = 2, kHybrid = 3 };

std::string_view TrainModeName(TrainMode mode);  // "local", "pserver", "collective", "hybrid"

// Sets one field by name: its path from the root ("strategy.build_strategy.reduce_strategy"), the
// end of its path ("build_strategy.reduce_strategy", "reduce_strategy") or another spelling of a
// knob; of several fields with that name the one nearest to the root is meant. Lists are "a,b" or
// "[a, b]" and replace what was there. A value that has a higher precedence stays. INVALID_ARGUMENT
// (with a hint) for an unknown or ambiguous name, a wrong value, or one out of range; *root is then
// unchanged. `also`: names that are no fields and may have been meant, for the hint.
Status ApplyOverride(google::protobuf::Message* root, std::string_view name, std::string_view value,
                     const Origin& origin, Origins* origins,
                     const std::vector<std::string>& also = {});

// Applies the variables that are spellings of a knob (FLAGS_*, CPU_NUM). A FLAGS_* variable that is
// not a knob is noted. Errors are added to *diagnostics. The caller reads the environment.
void ApplyEnvironment(google::protobuf::Message* root,
                      const std::map<std::string, std::string>& environment, Origins* origins,
                      Diagnostics* diagnostics);

// What the job is run with, as far as the strategy must fit to it.
struct StrategyContext {
  TrainMode mode = TrainMode::kLocal;
  Origin mode_origin;  // who chose the mode
  int ranks = 0;       // number of trainers; 0: not known yet
};

// Adds an error for every knob that is set away from its default and is not built yet, has no
// meaning in this mode, or contradicts another one; a note for one that is a matter of speed alone
// and has no effect in this mode. `path` is where the strategy stands in the root ("strategy"; ""
// for the root).
void ValidateStrategy(const DistributedStrategy& strategy, const StrategyContext& context,
                      const Origins& origins, std::string_view path, Diagnostics* diagnostics);

// Text form of the fields that are set, by field number: the same message gives the same bytes, and
// reading it back gives the same message.
std::string SaveText(const google::protobuf::Message& message);

// Every value that is not a default, one per line, with its origin:
//   strategy.a_sync: true   (flag --a_sync, over job.pbtxt:9:3)
std::string EffectiveText(const google::protobuf::Message& root, const Origins& origins);

}  // namespace tandem
