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

// Returns "PROGRAM: error: what (CODE)" and, on the next line, the hint if the message has one. For
// CANCELLED the text has neither "error:" nor the code. A message with ": error: " already contains
// the location of the error in a file, so the function returns the message without additions. The
// text ends with a newline.
std::string ErrorText(const std::string& program, const Status& status);

}  // namespace tandem
