// A fuzz target tests one parser. Each file of this directory is one target and one program, except
// fuzzer_main.cc and replay_test.cc. The preset `fuzz` builds a target with libFuzzer. Other
// presets build a test that replays the target's seeds.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct FuzzTarget {
  std::vector<std::string> seeds;  // inputs that the parser accepts
  std::vector<const char*> words;  // fragments that mutations insert
  // Returns whether the parser accepts the input. Aborts if the parser rejects the input without a
  // message, or accepts values that are out of range.
  std::function<bool(std::string_view input)> accepts;
};

FuzzTarget MakeFuzzTarget();

}  // namespace tandem
