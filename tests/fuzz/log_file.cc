// Fuzz target: files of a pserver's update log. The target reads the input as a file, and as what
// follows the header and one correct frame.
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "pserver/log_files/log_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem {
namespace {

using pserver::FrameHead;
using pserver::LogFile;

constexpr std::string_view kPayload = "a payload";

// Returns a file with frames of the numbers 1 to `frames`.
std::string FileOf(int frames) {
  const auto head = pserver::EncodeFileHead();
  std::string bytes(head.data(), head.size());
  for (int n = 1; n <= frames; ++n) {
    const auto frame = pserver::EncodeFrameHead(
        {.number = static_cast<uint64_t>(n), .time_us = 5, .bytes = kPayload.size()}, kPayload);
    bytes.append(frame.data(), frame.size()).append(kPayload);
  }
  return bytes;
}

// Returns the number of frames; -1: the file is refused.
int FramesOf(const std::string& path) {
  std::vector<LogFile> files(1);
  files[0].path = path;
  files[0].fd = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(files[0].fd.valid());
  int frames = 0;
  uint64_t bytes = 0;
  const Status read = pserver::ReadLogFiles(files, 0, [&](const pserver::LogFrame& frame) {
    ++frames;
    bytes += frame.payload.size();
    CHECK_EQ(frame.head.bytes, frame.payload.size());
    return OkStatus();
  });
  CHECK(read.ok() || !read.message().empty());
  // Reading only the heads gives the same result.
  CHECK_EQ(pserver::RangeOf(files, 0).ok(), read.ok());
  return read.ok() ? frames : -1;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  const auto dir = std::make_shared<TempDir>();
  const auto accepts = [dir](std::string_view input) {
    const std::string path = *dir / "file";
    trainer::WriteFile(path, input);
    const int raw = FramesOf(path);
    trainer::WriteFile(path, FileOf(1).append(input));
    const int after = FramesOf(path);
    CHECK(after != 0) << "the frame before the input is lost";
    return raw > 0 || after > 1;
  };
  const std::string head = FileOf(0), two = FileOf(2);
  return {{two, two.substr(head.size()), FileOf(3)}, {"TDLOG001"}, accepts};
}

}  // namespace tandem
