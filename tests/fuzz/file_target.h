// Fuzz targets that parse a file.
#pragma once

#include <memory>
#include <string>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/reader_formats.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem {

// Makes the `accepts` of a target that writes each input to a file and gives its path to `open`.
template <typename Open>
auto FileAccepts(Open open) {
  return [open, dir = std::make_shared<TempDir>()](std::string_view input) {
    trainer::WriteFile(*dir / "file", input);
    const Status status = open(*dir / "file");
    CHECK(status.ok() || !status.message().empty());
    return status.ok();
  };
}

// Returns OK if every sample can be read.
inline Status Checked(const reader::Dataset& data) {
  CHECK_EQ(FaultOf(data), "");
  return OkStatus();
}

// Checks training and test data of a reader that returns both.
template <typename Data>
Status CheckedBoth(const StatusOr<Data>& data) {
  TD_RETURN_IF_ERROR(data.status());
  TD_RETURN_IF_ERROR(Checked(*data->train));
  return Checked(*data->test);
}

// Makes the target of a format of ReaderFormats().
inline FuzzTarget FormatTarget(const std::string& name) {
  const ReaderFormat format = ReaderFormatOf(name);
  return {{format.valid}, format.pieces, FileAccepts([format](const std::string& path) {
            return CheckedBoth(format.open(path));
          })};
}

}  // namespace tandem
