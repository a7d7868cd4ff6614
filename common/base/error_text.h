// The text of an error that a program prints before it exits.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem {

// Splits a message at its semicolon into the text before the hint, and the hint. Forms of a
// message: "what; hint: do this" and "what; did you mean \"x\"?". The hint is "" if the message has
// none.
std::pair<std::string, std::string> SplitHint(const std::string& message);

// Returns "PROGRAM: error: what (CODE)" and, on the next line, the hint. The text ends with a
// newline. A message about a file stays unchanged, because it already contains its location.
std::string ErrorText(const std::string& program, const Status& status);

}  // namespace tandem
