// One parser under fuzzing. Each file of this folder but fuzzer_main.cc and replay_test.cc is one,
// and a program of its own: with the preset fuzz a libFuzzer, else a test that replays the seeds.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct FuzzTarget {
  std::vector<std::string> seeds;  // inputs that are accepted
  std::vector<const char*> words;  // that inputs are made of
  // Whether the parser takes the input. Aborts where it breaks a promise: without a message for
  // what it refuses, or with values out of their range in what it takes.
  std::function<bool(std::string_view input)> accepts;
};

FuzzTarget MakeFuzzTarget();

}  // namespace tandem
