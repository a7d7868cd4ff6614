// Runs a target under libFuzzer, with libFuzzer's flags and corpora (llvm.org/docs/LibFuzzer.html).
// With --write_seeds=DIR the program only writes the seeds to DIR and the words to DIR/words.dict,
// and exits.
#include <glog/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem {
namespace {

const FuzzTarget& Target() {
  static const auto* const target = new FuzzTarget(MakeFuzzTarget());
  return *target;
}

void WriteSeeds(const std::string& dir) {
  for (size_t i = 0; i < Target().seeds.size(); ++i) {
    trainer::WriteFile(dir + "/seed-" + std::to_string(i), Target().seeds[i]);
  }
  std::string words;
  for (const std::string word : Target().words) {
    words += '"';
    for (const char c : word) {
      char text[8];
      std::snprintf(text, sizeof(text), "\\x%02x", static_cast<unsigned char>(c));
      words += text;
    }
    words += "\"\n";
  }
  trainer::WriteFile(dir + "/words.dict", words);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  google::InitGoogleLogging((*argv)[0]);
  FLAGS_logtostderr = true;
  // Hides warnings, because each skipped record of a file would log one.
  FLAGS_minloglevel = google::GLOG_ERROR;
  constexpr std::string_view kWrite = "--write_seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view arg = (*argv)[i];
    if (!arg.starts_with(kWrite)) continue;
    tandem::WriteSeeds(std::string(arg.substr(kWrite.size())));
    std::exit(0);
  }
  tandem::Target();  // created here, so that the time limit of the first input does not include the
                     // creation
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Target().accepts({reinterpret_cast<const char*>(data), size});
  return 0;
}
