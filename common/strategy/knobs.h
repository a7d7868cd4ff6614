// The list of all knobs. It is read from the descriptors of proto/strategy.proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::strategy {

struct KnobInfo {
  std::string path;  // path from DistributedStrategy, such as "build_strategy.reduce_strategy"
  // Type of the knob, such as "bool", "int32", "list of string", "AllReduce|Reduce".
  std::string type;
  std::string default_value;  // default as text; "" for an empty list or string
  std::string unit;
  std::string range;               // allowed range, such as "1..16" or ">= 0"; "": no limit
  std::vector<std::string> modes;  // modes in which the knob has a meaning; empty: all modes
  std::vector<std::string> aliases;
  std::string doc;
  std::string why;
  bool built = false;
  bool tuning = false;
  // If `built` is true, the only implemented values; empty: all values are implemented.
  std::vector<std::string> built_values;
  std::string effect_test;
};

// Returns all knobs in the order of the proto file, without fields that only contain other knobs.
std::vector<KnobInfo> ListKnobs();

// Returns the output of `tandem knobs list`: a line per knob in aligned columns. It ends with a
// newline.
std::string KnobsTable();

// Returns all knobs with the name `name`, which is a path, the end of a path, or another spelling.
// NOT_FOUND: there is no such knob; the message has the nearest name.
StatusOr<std::vector<KnobInfo>> FindKnobs(std::string_view name);

// Returns the output of `tandem knobs explain NAME`: one paragraph per knob.
std::string ExplainKnobs(const std::vector<KnobInfo>& knobs);

// Returns the text of docs/reference/knobs.md.
std::string KnobsMarkdown();

}  // namespace tandem::strategy
