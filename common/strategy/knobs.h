// The list of all knobs, read from the descriptors of proto/strategy.proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::strategy {

struct KnobInfo {
  std::string path;           // from DistributedStrategy: "build_strategy.reduce_strategy"
  std::string type;           // "bool", "int32", "list of string", "AllReduce|Reduce"
  std::string default_value;  // as text; "" for an empty list or string
  std::string unit;
  std::string range;               // "1..16", ">= 0", ""
  std::vector<std::string> modes;  // empty: all
  std::vector<std::string> aliases;
  std::string doc;
  std::string why;
  bool built = false;
  bool tuning = false;
  std::vector<std::string> built_values;  // with built: the only ones; empty: all
  std::string effect_test;
};

// In the order of the proto file, without fields that only hold other knobs.
std::vector<KnobInfo> ListKnobs();

// For `tandem knobs list`: aligned columns, one knob per line. Ends with a newline.
std::string KnobsTable();

// Returns all knobs with this name: a path, the end of a path, or another spelling. NOT_FOUND: no
// such knob; the message has the nearest name.
StatusOr<std::vector<KnobInfo>> FindKnobs(std::string_view name);

// For `tandem knobs explain NAME`: one paragraph per knob.
std::string ExplainKnobs(const std::vector<KnobInfo>& knobs);

// Returns the text of docs/reference/knobs.md.
std::string KnobsMarkdown();

}  // namespace tandem::strategy
