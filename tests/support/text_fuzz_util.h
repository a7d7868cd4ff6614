// Mutates text files for fuzz tests. Each test prints its seed. The environment variable
// TANDEM_SEED sets another seed, and TANDEM_FUZZ_RUNS sets the number of mutated files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>

namespace tandem {

struct FuzzRuns {
  uint64_t seed;
  int64_t runs;
};

inline FuzzRuns FuzzRunsOf(int64_t usual) {
  const char* seed = std::getenv("TANDEM_SEED");
  const char* runs = std::getenv("TANDEM_FUZZ_RUNS");
  const FuzzRuns fuzz = {
      seed != nullptr ? std::strtoull(seed, nullptr, 10) : std::random_device{}(),
      runs != nullptr ? std::strtoll(runs, nullptr, 10) : usual};
  std::printf("TANDEM_SEED=%llu TANDEM_FUZZ_RUNS=%lld\n",
              static_cast<unsigned long long>(fuzz.seed), static_cast<long long>(fuzz.runs));
  return fuzz;
}

// Makes one to four changes to `text`. A change alters a byte, removes a part, inserts a fragment
// of `pieces`, repeats a part, truncates the text or inserts a row of brackets.
inline std::string MutateText(std::string text, std::span<const char* const> pieces,
                              std::mt19937_64& random) {
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits; ++i) {
    if (text.empty()) text = "x";
    const size_t at = random() % (text.size() + 1);
    const size_t length = random() % 24;
    switch (random() % 6) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random() & 0xFF);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, pieces[random() % pieces.size()]);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text.insert(at, 1 + random() % 64, "{[<\"-:"[random() % 6]);
        break;
    }
  }
  return text;
}

}  // namespace tandem
