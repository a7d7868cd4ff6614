// The text of an error that a program prints before it exits.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem {

// Splits "what; hint: do this" and "what; did you mean \"x\"?" into what and hint. The hint is ""
// if there is none.
std::pair<std::string, std::string> SplitHint(const std::string& message);

// Returns "PROGRAM: error: what (CODE)" and then a line with the hint; `tandem explain CODE`
// explains the code. Errors of files, which contain their own location, stay unchanged. Ends with a
// newline.
std::string ErrorText(const std::string& program, const Status& status);

}  // namespace tandem
