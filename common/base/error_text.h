// What a program says of an error before it ends.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem {

// "what; hint: do this" and "what; did you mean \"x\"?" as what and hint; "" for none.
std::pair<std::string, std::string> SplitHint(const std::string& message);

// "PROGRAM: error: what (CODE)", which `tandem explain CODE` explains, and what to do next in a
// line of its own. CANCELLED, which is a stop on request, is told as "PROGRAM: what". Errors of
// files, which tell their own place, come as they are. Ends with a newline.
std::string ErrorText(const std::string& program, const Status& status);

}  // namespace tandem
