// A fuzz target: one parser. Each file of this directory, except fuzzer_main.cc and replay_test.cc,
// is one target and one program. The preset `fuzz` builds it with libFuzzer; other presets build a
// test that replays the seeds.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct FuzzTarget {
  std::vector<std::string> seeds;  // valid inputs
  std::vector<const char*> words;  // fragments for new inputs
  // Returns whether the parser accepts the input. Aborts if the parser breaks a promise: it rejects
  // without a message, or accepts values out of their range.
  std::function<bool(std::string_view input)> accepts;
};

FuzzTarget MakeFuzzTarget();

}  // namespace tandem
