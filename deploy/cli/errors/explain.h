// The meanings of the status codes at the end of error messages, as a table for `tandem explain`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct CodeRow {
  StatusCode code;
  const char* meaning;
  const char* what_to_do;
  const char* example;  // a message of Tandem with this status code
  const char* source;   // path of the source file that has the message
};

// Returns the table, with a row for each status code that Tandem uses (common/base/status.h).
const std::vector<CodeRow>& CodeTable();

// Returns the rows for `asked`, which is a name ("DATA_LOSS"), an exit code ("65"), or a message
// that ends with "(NAME)". NOT_FOUND: there is no such row; the message has the nearest name.
StatusOr<std::vector<CodeRow>> FindCode(const std::string& asked);

}  // namespace tandem::deploy
