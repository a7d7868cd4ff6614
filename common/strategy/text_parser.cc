// Implements ParseTextProto as a recursive-descent parser over protobuf's tokenizer. The parser
// continues after an error, so that one run reports all errors. protobuf's own parser stops at the
// first error.
#include "common/strategy/text_parser.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/nearest.h"
#include "common/strategy/field_value.h"
#include "common/strategy/knob_index.h"
#include "proto/knob.pb.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;
using Tokenizer = gpb::io::Tokenizer;

// A message that the parser is filling, with its location and the fields that are set so far.
struct Scope {
  gpb::Message* message = nullptr;
  std::string path;  // path from the root message; undefined if `recorded` is false
  // true: origins are recorded, because no repeated message contains this message.
  bool recorded = true;
  // Scope of the DistributedStrategy that contains this message, or is this message.
  Scope* strategy = nullptr;
};

// The field that a value sets. It is in the message of the scope, or in another message of the
// strategy.
struct Target {
  gpb::Message* holder = nullptr;
  const gpb::FieldDescriptor* field = nullptr;
  std::string path;
};

class TextParser : public gpb::io::ErrorCollector {
 public:
  TextParser(const TextFile& file, Origins* origins, Diagnostics* diagnostics)
      : file_(file),
        origins_(origins),
        diagnostics_(diagnostics),
        input_(file.text.data(), static_cast<int>(file.text.size())),
        tokenizer_(&input_, this) {
    tokenizer_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokenizer_.set_allow_f_after_float(true);
    tokenizer_.set_require_space_after_number(false);
    FindLines();
  }

  void Parse(gpb::Message* root) {
    Next();
    Scope scope;
    scope.message = root;
    ParseMessage(&scope, nullptr, SourcePlace(), 0);
  }

  // Records an error that the tokenizer found, such as an unterminated string.
  void AddError(int line, int column, const std::string& message) override {
    diagnostics_->Error(PlaceAt(line, column), message + " [TD1105]");
  }

 private:
  // Fields that were set, with their line numbers from 0.
  using SeenFields = std::map<const gpb::FieldDescriptor*, int>;

  const Tokenizer::Token& token() { return tokenizer_.current(); }
  bool AtEnd() { return token().type == Tokenizer::TYPE_END || diagnostics_->full(); }
  bool Is(std::string_view symbol) {
    return token().type == Tokenizer::TYPE_SYMBOL && token().text == symbol;
  }
  void Next() { tokenizer_.Next(); }
  bool Take(std::string_view symbol) {
    if (!Is(symbol)) return false;
    Next();
    return true;
  }

  void FindLines() {
    line_starts_.push_back(0);
    for (size_t i = 0; i < file_.text.size(); ++i) {
      if (file_.text[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  // Returns a line for display, without control characters. Tabs become blanks, as in the
  // tokenizer.
  std::string Excerpt(int line) const {
    constexpr size_t kShownMax = 400;
    if (line < 0 || static_cast<size_t>(line) >= line_starts_.size()) return "";
    std::string shown;
    for (size_t i = line_starts_[line]; i < file_.text.size() && shown.size() < kShownMax; ++i) {
      const char c = file_.text[i];
      if (c == '\n' || c == '\r') break;
      if (c == '\t') {
        shown.append(8 - shown.size() % 8, ' ');
      } else {
        shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
      }
    }
    return shown;
  }

  SourcePlace PlaceAt(int line, int column) const {
    return SourcePlace{file_.name, line + 1, column + 1, Excerpt(line)};
  }
  SourcePlace Here() { return PlaceAt(token().line, token().column); }

  std::string TokenText() {
    if (token().type == Tokenizer::TYPE_END) return "the end of the file";
    Literal shown;
    shown.text = token().text;
    return shown.Shown();
  }

  void SkipBalanced();
  void SkipLine(int line);
  void SkipValue();
  void ParseMessage(Scope* scope, const char* close, const SourcePlace& opened, int depth);
  void ParseStatement(Scope* scope, int depth);
  bool ResolveName(Scope* scope, const std::string& name, const SourcePlace& place, Target* target);
  bool ResolveStrategyName(Scope* scope, const std::string& name, const SourcePlace& place,
                           Target* target);
  std::string HintFor(const Scope& scope, const std::string& name);
  bool Claim(const Target& target, const SourcePlace& place, int line);
  void ParseFieldValue(Scope* scope, const Target& target, const SourcePlace& place, bool colon,
                       int depth);
  bool ParseChild(Scope* scope, const Target& target, int depth);
  bool ParseScalar(const Target& target);
  bool ReadLiteral(Literal* literal);
  const FieldIndex& StrategyIndex(const gpb::Descriptor& strategy);

  const TextFile& file_;
  Origins* const origins_;
  Diagnostics* const diagnostics_;
  gpb::io::ArrayInputStream input_;
  Tokenizer tokenizer_;
  std::vector<size_t> line_starts_;
  std::map<const gpb::Message*, SeenFields> seen_;
  // Index of the strategy's knobs, created at its first use.
  std::unique_ptr<FieldIndex> strategy_index_;
};

const FieldIndex& TextParser::StrategyIndex(const gpb::Descriptor& strategy) {
  if (strategy_index_ == nullptr) strategy_index_ = std::make_unique<FieldIndex>(strategy);
  return *strategy_index_;
}

// Skips the text from a bracket { < or [ to its closing bracket, with everything in between.
void TextParser::SkipBalanced() {
  int64_t open = 0;
  while (!AtEnd()) {
    if (Is("{") || Is("<") || Is("[")) ++open;
    if (Is("}") || Is(">") || Is("]")) --open;
    Next();
    if (open <= 0) return;
  }
}

// Skips to the first token of a later line, so that one mistake gives only one error. Stops before
// the end of the enclosing message.
void TextParser::SkipLine(int line) {
  while (!AtEnd() && token().line == line && !Is("}") && !Is(">")) {
    if (Is("{") || Is("<") || Is("[")) {
      SkipBalanced();
    } else {
      Next();
    }
  }
}

// Skips the value of an unknown field, whose name was just read.
void TextParser::SkipValue() {
  const int line = token().line;
  if (Is("{") || Is("<") || Is("[")) return SkipBalanced();
  if (!Take(":")) return SkipLine(line);
  if (Is("{") || Is("<") || Is("[")) return SkipBalanced();
  Take("-");
  if (AtEnd() || Is("}") || Is(">")) return;
  const bool string = token().type == Tokenizer::TYPE_STRING;
  Next();
  while (!AtEnd() && ((string && token().type == Tokenizer::TYPE_STRING) || Is("."))) {
    if (Take(".") && token().type == Tokenizer::TYPE_IDENTIFIER) Next();
    if (string && token().type == Tokenizer::TYPE_STRING) Next();
  }
}

void TextParser::ParseMessage(Scope* scope, const char* close, const SourcePlace& opened,
                              int depth) {
  if (IsStrategy(*scope->message->GetDescriptor())) scope->strategy = scope;
  while (!AtEnd()) {
    if (close != nullptr && Take(close)) return;
    if (Take(";") || Take(",")) continue;
    ParseStatement(scope, depth);
  }
  if (close != nullptr && !diagnostics_->full()) {
    diagnostics_->Error(opened, "this message is never closed [TD1105]",
                        absl::StrCat("add \"", close, "\" where it ends"));
  }
}

void TextParser::ParseStatement(Scope* scope, int depth) {
  const SourcePlace place = Here();
  const int line = token().line;
  if (token().type != Tokenizer::TYPE_IDENTIFIER) {
    diagnostics_->Error(place, "expected the name of a field, got " + TokenText() + " [TD1105]");
    Next();
    SkipLine(line);
    return;
  }
  const std::string name = token().text;
  Next();
  Target target;
  if (!ResolveName(scope, name, place, &target)) return SkipValue();
  const bool colon = Take(":");
  if (!Claim(target, place, line)) {
    if (Is("{") || Is("<") || Is("[")) return SkipBalanced();
    return SkipLine(line);
  }
  ParseFieldValue(scope, target, place, colon, depth);
}

// Finds the knob that `name` means, if this message has no field `name`. The knob is in another
// message of the strategy, or `name` is another spelling of the knob. Returns false unless exactly
// one knob matches.
bool TextParser::ResolveStrategyName(Scope* scope, const std::string& name,
                                     const SourcePlace& place, Target* target) {
  if (scope->strategy == nullptr) return false;
  gpb::Message* strategy = scope->strategy->message;
  const auto found = StrategyIndex(*strategy->GetDescriptor()).Find(name);
  if (found.size() != 1) return false;
  target->holder = HolderOf(*found[0], strategy);
  target->field = &found[0]->field();
  const std::string& base = scope->strategy->path;
  target->path = base.empty() ? found[0]->path : base + "." + found[0]->path;
  if (target->holder == scope->message) {
    diagnostics_->Note(place, absl::StrCat("\"", name, "\" is taken as ", target->field->name()));
  } else {
    diagnostics_->Note(place, absl::StrCat("\"", name, "\" is taken as ", found[0]->path));
  }
  return true;
}

bool TextParser::ResolveName(Scope* scope, const std::string& name, const SourcePlace& place,
                             Target* target) {
  const gpb::Descriptor& type = *scope->message->GetDescriptor();
  const gpb::FieldDescriptor* field = type.FindFieldByName(name);
  // Another spelling of a field of this message has precedence over a knob of another message.
  for (int i = 0; field == nullptr && i < type.field_count(); ++i) {
    if (!IsAlias(*type.field(i), name)) continue;
    field = type.field(i);
    diagnostics_->Note(place, absl::StrCat("\"", name, "\" is taken as ", field->name()));
  }
  if (field != nullptr) {
    target->holder = scope->message;
    target->field = field;
    target->path = scope->path.empty() ? field->name() : scope->path + "." + field->name();
    return true;
  }
  if (ResolveStrategyName(scope, name, place, target)) return true;
  diagnostics_->Error(place, absl::StrCat(type.name(), " has no field \"", name, "\" [TD1101]"),
                      HintFor(*scope, name));
  return false;
}

std::string TextParser::HintFor(const Scope& scope, const std::string& name) {
  const std::string_view instead = InsteadOf(name);
  if (!instead.empty()) return std::string(instead);
  const gpb::Descriptor& type = *scope.message->GetDescriptor();
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    const gpb::FieldDescriptor& field = *type.field(i);
    names.push_back(field.name());
    const bool strategy = field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE &&
                          !field.is_repeated() && IsStrategy(*field.message_type());
    if (strategy && StrategyIndex(*field.message_type()).Find(name).size() == 1) {
      return absl::StrCat("\"", name, "\" belongs in ", field.name(), " { }");
    }
  }
  std::string nearest = NearestName(name, names);
  std::string where;
  if (scope.strategy != nullptr) {
    const FieldIndex& index = StrategyIndex(*scope.strategy->message->GetDescriptor());
    const auto same = index.Find(name);
    if (same.size() > 1) return "several knobs have this name: " + PathList(same);
    const std::string elsewhere = NearestName(name, index.Names());
    // The hint suggests the nearest name. If a field of this message and a field of another message
    // are equally near, the field of this message has precedence.
    if (nearest.empty() ||
        (!elsewhere.empty() && EditDistance(name, elsewhere) < EditDistance(name, nearest))) {
      nearest = elsewhere;
    }
    const auto found = index.Find(nearest);
    if (found.size() == 1 && found[0]->steps.size() > 1 && !nearest.empty() &&
        found[0]->field().containing_type() != &type) {
      where = " (" + found[0]->path + ")";
    }
  }
  return nearest.empty() ? "" : absl::StrCat("did you mean \"", nearest, "\"?", where);
}

// Returns whether the field may be set; if not, adds an error. Only a repeated field may be set
// twice, and only one field of a oneof may be set.
bool TextParser::Claim(const Target& target, const SourcePlace& place, int line) {
  if (target.field->is_repeated()) return true;
  SeenFields& seen = seen_[target.holder];
  const gpb::OneofDescriptor* oneof = target.field->real_containing_oneof();
  for (const auto& [other, other_line] : seen) {
    if (other == target.field) {
      diagnostics_->Error(place,
                          absl::StrCat(target.field->name(), " is given twice; first in line ",
                                       other_line + 1, " [TD1102]"),
                          "keep one of them");
      return false;
    }
    if (oneof != nullptr && other->real_containing_oneof() == oneof) {
      diagnostics_->Error(place,
                          absl::StrCat(target.field->name(), " and ", other->name(), " (line ",
                                       other_line + 1, ") exclude each other [TD1102]"),
                          "keep one of them");
      return false;
    }
  }
  seen.emplace(target.field, line);
  return true;
}

void TextParser::ParseFieldValue(Scope* scope, const Target& target, const SourcePlace& place,
                                 bool colon, int depth) {
  const bool message = target.field->cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE;
  if (origins_ != nullptr && scope->recorded) {
    origins_->Set(target.path, Origin{OriginKind::kFile, place, ""});
  }
  if (!message && !colon) {
    diagnostics_->Error(Here(), absl::StrCat("expected \":\" after ", target.field->name(),
                                             ", got ", TokenText(), " [TD1105]"));
    return SkipLine(place.line - 1);
  }
  const auto parse_one = [&] {
    return message ? ParseChild(scope, target, depth) : ParseScalar(target);
  };
  if (!Is("[")) {
    parse_one();
    return;
  }
  if (!target.field->is_repeated()) {
    diagnostics_->Error(Here(), absl::StrCat(target.field->name(), " is not a list [TD1103]"),
                        "write one value without [ ]");
    return SkipBalanced();
  }
  Next();
  while (!AtEnd() && !Take("]")) {
    if (!parse_one()) return;
    if (Is("]") || Take(",")) continue;
    diagnostics_->Error(Here(),
                        "expected \",\" or \"]\" in a list, got " + TokenText() + " [TD1105]");
    return SkipLine(token().line);
  }
}

bool TextParser::ParseChild(Scope* scope, const Target& target, int depth) {
  const char* close = Is("{") ? "}" : Is("<") ? ">" : nullptr;
  if (close == nullptr) {
    diagnostics_->Error(
        Here(), absl::StrCat(target.field->name(), " expects a message in { }, got ", TokenText(),
                             " [TD1105]"));
    SkipLine(token().line);
    return false;
  }
  if (depth + 1 > kTextFileDepthMax) {
    diagnostics_->Error(Here(),
                        absl::StrCat("messages are nested deeper than ", kTextFileDepthMax));
    SkipBalanced();
    return true;
  }
  const SourcePlace opened = Here();
  Next();
  const gpb::Reflection& reflection = *target.holder->GetReflection();
  const bool repeated = target.field->is_repeated();
  Scope child;
  child.message = repeated ? reflection.AddMessage(target.holder, target.field)
                           : reflection.MutableMessage(target.holder, target.field);
  child.path = target.path;
  child.recorded = scope->recorded && !repeated;
  child.strategy = scope->strategy;
  ParseMessage(&child, close, opened, depth + 1);
  // Keeps the set fields only for messages of the strategy, because later text may still set knobs
  // in them. All other messages are complete.
  if (child.strategy == nullptr) seen_.erase(child.message);
  return true;
}

bool TextParser::ReadLiteral(Literal* literal) {
  literal->negative = Take("-");
  switch (token().type) {
    case Tokenizer::TYPE_INTEGER:
      literal->kind = Literal::Kind::kInteger;
      break;
    case Tokenizer::TYPE_FLOAT:
      literal->kind = Literal::Kind::kFloat;
      break;
    case Tokenizer::TYPE_IDENTIFIER:
      literal->kind = Literal::Kind::kIdentifier;
      break;
    case Tokenizer::TYPE_STRING:
      literal->kind = Literal::Kind::kString;
      while (token().type == Tokenizer::TYPE_STRING) {
        Tokenizer::ParseStringAppend(token().text, &literal->text);
        Next();
      }
      return !literal->negative;
    default:
      return false;
  }
  literal->text = token().text;
  Next();
  while (literal->kind == Literal::Kind::kIdentifier && Is(".")) {
    Next();
    if (token().type != Tokenizer::TYPE_IDENTIFIER) return false;
    literal->text += "." + token().text;
    Next();
  }
  return true;
}

bool TextParser::ParseScalar(const Target& target) {
  const SourcePlace place = Here();
  const int line = token().line;
  Literal literal;
  if (!ReadLiteral(&literal)) {
    diagnostics_->Error(place, absl::StrCat("expected a value for ", target.field->name(), ", got ",
                                            TokenText(), " [TD1105]"));
    SkipLine(line);
    return false;
  }
  const auto error = SetFieldValue(*target.field, literal, target.holder);
  if (error.has_value()) diagnostics_->Error(place, error->message, error->hint);
  return true;
}

}  // namespace

void ParseTextProto(const TextFile& file, gpb::Message* out, Origins* origins,
                    Diagnostics* diagnostics) {
  out->Clear();
  if (static_cast<int64_t>(file.text.size()) > kTextFileBytesMax) {
    diagnostics->Error(SourcePlace{file.name}, absl::StrCat("larger than ", kTextFileBytesMax >> 20,
                                                            " MiB, the maximum for a text file"));
    return;
  }
  TextParser(file, origins, diagnostics).Parse(out);
}

}  // namespace tandem::strategy
