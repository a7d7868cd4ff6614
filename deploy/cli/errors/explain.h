// The meaning of the status code at the end of an error message: the table of `tandem explain`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct CodeRow {
  StatusCode code;
  const char* meaning;
  const char* what_to_do;
  const char* example;  // a message of Tandem
  const char* source;   // the source file of the message
};

// A row for each code that Tandem uses (common/base/status.h).
const std::vector<CodeRow>& CodeTable();

// The rows for `asked`: a name ("DATA_LOSS"), an exit code ("65"), or a message that ends with
// "(NAME)". NOT_FOUND: no such row; the message has the nearest name.
StatusOr<std::vector<CodeRow>> FindCode(const std::string& asked);

}  // namespace tandem::deploy
