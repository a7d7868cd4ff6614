#include "common/base/error_text.h"

#include <string_view>

namespace tandem {

std::pair<std::string, std::string> SplitHint(const std::string& message) {
  for (const std::string_view mark : {"; hint: ", "; did you mean "}) {
    const size_t at = message.find(mark);
    if (at == message.npos) continue;
    const bool named = mark == "; hint: ";
    return {message.substr(0, at), message.substr(at + (named ? mark.size() : 2))};
  }
  return {message, ""};
}

std::string ErrorText(const std::string& program, const Status& status) {
  std::string text(status.message().data(), status.message().size());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  // Such a message already contains the location of an error in a file, and the word "error".
  if (text.starts_with("error: ") || text.find(": error: ") != std::string::npos) {
    return text + "\n";
  }
  // CANCELLED: the user or the operator requested the stop, so the stop is no error.
  const bool asked = status.code() == StatusCode::kCancelled;
  const std::string code = asked ? "" : " (" + absl::StatusCodeToString(status.code()) + ")";
  const auto [what, hint] = SplitHint(text);
  return program + (asked ? ": " : ": error: ") + what + code + "\n" +
         (hint.empty() ? "" : "hint: " + hint + "\n");
}

}  // namespace tandem
