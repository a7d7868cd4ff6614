// The effective configuration: a file with overrides from flags and environment variables, checks
// of the strategy, and its text form. The functions work by reflection on any message that is or
// contains a DistributedStrategy (proto/strategy.proto), such as JobConfig. Use:
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

namespace tandem::strategy {

// Sets one field by name. The name is a path from the root
// ("strategy.build_strategy.reduce_strategy"), the end of a path ("build_strategy.reduce_strategy",
// "reduce_strategy") or another spelling of a knob. If several fields match, the field nearest to
// the root is set. Lists are "a,b" or "[a, b]" and replace the old value. If the field has a value
// of higher precedence, that value stays. `also`: further names for the "did you mean" hint.
// INVALID_ARGUMENT (with a hint): an unknown or ambiguous name, a wrong value, or a value out of
// range; *root is then unchanged.
Status ApplyOverride(google::protobuf::Message* root, std::string_view name, std::string_view value,
                     const Origin& origin, Origins* origins,
                     const std::vector<std::string>& also = {});

// Applies the environment variables that are spellings of a knob (FLAGS_*, CPU_NUM). Adds errors to
// *diagnostics, and a note for each FLAGS_* variable that is no knob. `environment` holds the
// variables: this function does not read the process environment.
void ApplyEnvironment(google::protobuf::Message* root,
                      const std::map<std::string, std::string>& environment, Origins* origins,
                      Diagnostics* diagnostics);

// Returns the text form of all set fields, in the order of field numbers. Equal messages give equal
// bytes. Parsing the text gives an equal message.
std::string SaveText(const google::protobuf::Message& message);

// Returns every value that is not a default, one per line, with its origin. Example of a line:
//   strategy.a_sync: true   (flag --a_sync, over job.pbtxt:9:3)
std::string EffectiveText(const google::protobuf::Message& root, const Origins& origins);

}  // namespace tandem::strategy
