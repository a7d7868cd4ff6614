// The text of an error that a program prints before it exits.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem {

// Splits the message "what; hint: do this" or "what; did you mean \"x\"?" at the semicolon into its
// first part and its hint. The hint is "" if the message has none.
std::pair<std::string, std::string> SplitHint(const std::string& message);

// Returns "PROGRAM: error: what (CODE)" and, on the next line, the hint. The text ends with a
// newline. A message about a file already contains its own location and stays unchanged.
std::string ErrorText(const std::string& program, const Status& status);

}  // namespace tandem
