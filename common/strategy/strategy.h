// The effective configuration: overrides from flags and environment on top of a file, checks of the
// strategy, and its text form. Works by reflection on any message that is or contains a
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

namespace tandem::strategy {

// Sets one field by name. The name is a path from the root
// ("strategy.build_strategy.reduce_strategy"), the end of a path ("build_strategy.reduce_strategy",
// "reduce_strategy") or another spelling of a knob. If several fields match, the one nearest to the
// root is set. Lists are "a,b" or "[a, b]" and replace the old value. A value with a higher
// precedence stays. `also`: other names that the user may have meant, for the hint.
// INVALID_ARGUMENT (with a hint): an unknown or ambiguous name, a wrong value, or a value out of
// range; *root is then unchanged.
Status ApplyOverride(google::protobuf::Message* root, std::string_view name, std::string_view value,
                     const Origin& origin, Origins* origins,
                     const std::vector<std::string>& also = {});

// Applies the variables that are spellings of a knob (FLAGS_*, CPU_NUM). Adds a note for a FLAGS_*
// variable that is not a knob, and errors to *diagnostics. The caller must read the environment.
void ApplyEnvironment(google::protobuf::Message* root,
                      const std::map<std::string, std::string>& environment, Origins* origins,
                      Diagnostics* diagnostics);

// Returns the text form of all set fields, by field number. Equal messages give equal bytes, and
// reading the text back gives an equal message.
std::string SaveText(const google::protobuf::Message& message);

// Every value that is not a default, one per line, with its origin:
//   strategy.a_sync: true   (flag --a_sync, over job.pbtxt:9:3)
std::string EffectiveText(const google::protobuf::Message& root, const Origins& origins);

}  // namespace tandem::strategy
