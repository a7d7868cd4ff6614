// Helpers for fuzz targets whose parser reads a file.
#pragma once

#include <memory>
#include <string>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/reader_formats.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem {

// Returns the function `accepts` of a target. The function writes each input to a file and calls
// `open` with the path of the file.
template <typename Open>
auto FileAccepts(Open open) {
  return [open, dir = std::make_shared<TempDir>()](std::string_view input) {
    trainer::WriteFile(*dir / "file", input);
    const Status status = open(*dir / "file");
    CHECK(status.ok() || !status.message().empty());
    return status.ok();
  };
}

// Reads every sample of `data`. Returns OK. Aborts if a sample cannot be read.
inline Status Checked(const reader::Dataset& data) {
  CHECK_EQ(FaultOf(data), "");
  return OkStatus();
}

// Reads all samples of the training data and of the test data that a reader returns.
template <typename Data>
Status CheckedBoth(const StatusOr<Data>& data) {
  TD_RETURN_IF_ERROR(data.status());
  TD_RETURN_IF_ERROR(Checked(*data->train));
  return Checked(*data->test);
}

// Makes the target for the format `name` of ReaderFormats().
inline FuzzTarget FormatTarget(const std::string& name) {
  const ReaderFormat format = ReaderFormatOf(name);
  return {{format.valid}, format.pieces, FileAccepts([format](const std::string& path) {
            return CheckedBoth(format.open(path));
          })};
}

}  // namespace tandem
