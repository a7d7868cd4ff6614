// What the code at the end of an error message means: the table behind `tandem explain`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct CodeRow {
  StatusCode code;
  const char* meaning;
  const char* what_to_do;
  const char* example;  // a message of Tandem's
  const char* source;   // the file that says it
};

// A row for each code that Tandem uses (common/base/status.h).
const std::vector<CodeRow>& CodeTable();

// The rows that `asked` is about: a name ("DATA_LOSS"), an exit code ("65"), or a message that ends
// with "(NAME)". NOT_FOUND with the nearest name.
StatusOr<std::vector<CodeRow>> FindCode(const std::string& asked);

}  // namespace tandem::deploy
