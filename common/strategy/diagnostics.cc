#include "common/strategy/diagnostics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/error_text.h"
#include "common/base/require.h"

namespace tandem::strategy {

namespace {

constexpr size_t kExcerptCharsMax = 160;

// Returns the spaces that move a caret under column `column` of `excerpt`. Continuation bytes of
// UTF-8 characters have no width.
std::string CaretIndent(const std::string& excerpt, int column) {
  std::string indent;
  for (int i = 0; i + 1 < column; ++i) {
    const bool inside = static_cast<size_t>(i) < excerpt.size();
    if (inside && (static_cast<unsigned char>(excerpt[i]) & 0xC0) == 0x80) continue;
    indent += ' ';
  }
  return indent;
}

}  // namespace

std::string SourcePlace::ToString() const {
  if (line <= 0) return file;
  return absl::StrFormat("%s:%d:%d", file, line, column);
}

std::string Diagnostic::ToString() const {
  std::string text = place.ToString();
  if (!text.empty()) text += ": ";
  text += severity == Severity::kError ? "error: " : "note: ";
  text += message + "\n";
  if (!place.excerpt.empty() && place.line > 0) {
    const bool shown = place.column <= static_cast<int>(kExcerptCharsMax);
    text += "  " + place.excerpt.substr(0, kExcerptCharsMax) + "\n";
    if (shown) text += "  " + CaretIndent(place.excerpt, place.column) + "^\n";
  }
  if (!hint.empty()) text += "hint: " + hint + "\n";
  return text;
}

void Diagnostics::Error(const SourcePlace& place, const std::string& message,
                        const std::string& hint) {
  TD_REQUIRE(!message.empty());
  if (errors_++ >= kKeptMax) return;
  auto [what, do_this] = hint.empty() ? SplitHint(message) : std::pair(message, hint);
  entries_.push_back({Diagnostic::Severity::kError, place, std::move(what), std::move(do_this)});
}

void Diagnostics::Note(const SourcePlace& place, const std::string& message,
                       const std::string& hint) {
  TD_REQUIRE(!message.empty());
  if (notes_++ < kKeptMax) {
    entries_.push_back({Diagnostic::Severity::kNote, place, message, hint});
  }
}

std::string Diagnostics::Text(Diagnostic::Severity severity) const {
  std::map<std::string, size_t> file_order;
  std::vector<const Diagnostic*> chosen;
  for (const Diagnostic& d : entries_) {
    file_order.emplace(d.place.file, file_order.size());
    if (d.severity == severity) chosen.push_back(&d);
  }
  const auto key = [&](const Diagnostic* d) {
    return std::tuple(d->place.line <= 0, file_order[d->place.file], d->place.line,
                      d->place.column);
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const Diagnostic* a, const Diagnostic* b) { return key(a) < key(b); });
  std::string text;
  for (const Diagnostic* d : chosen) text += d->ToString();
  const int64_t more = (severity == Diagnostic::Severity::kError ? errors_ : notes_) - kKeptMax;
  if (more > 0) text += absl::StrFormat("... and %d more\n", more);
  return text;
}

std::string Diagnostics::ErrorText() const { return Text(Diagnostic::Severity::kError); }
std::string Diagnostics::NoteText() const { return Text(Diagnostic::Severity::kNote); }

Status Diagnostics::status() const {
  if (ok()) return OkStatus();
  std::string text = ErrorText();
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return InvalidArgument("%s", text);
}

}  // namespace tandem::strategy
