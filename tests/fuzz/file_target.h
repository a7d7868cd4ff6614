// Targets that parse a file.
#pragma once

#include <memory>
#include <string>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/reader_formats.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem {

// `accepts` of a target that writes each input to a file and gives its path to `open`.
template <typename Open>
auto FileAccepts(Open open) {
  return [open, dir = std::make_shared<TempDir>()](std::string_view input) {
    WriteFile(*dir / "file", input);
    const Status status = open(*dir / "file");
    CHECK(status.ok() || !status.message().empty());
    return status.ok();
  };
}

// OK when every sample can be read.
inline Status Checked(const Dataset& data) {
  CHECK_EQ(FaultOf(data), "");
  return OkStatus();
}

// Training and test data of any reader that gives both.
template <typename Data>
Status CheckedBoth(const StatusOr<Data>& data) {
  TD_RETURN_IF_ERROR(data.status());
  TD_RETURN_IF_ERROR(Checked(*data->train));
  return Checked(*data->test);
}

// One of ReaderFormats().
inline FuzzTarget FormatTarget(const std::string& name) {
  const ReaderFormat format = ReaderFormatOf(name);
  return {{format.valid}, format.pieces, FileAccepts([format](const std::string& path) {
            return CheckedBoth(format.open(path));
          })};
}

}  // namespace tandem
