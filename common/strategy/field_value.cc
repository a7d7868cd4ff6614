#include "common/strategy/field_value.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "proto/knob.pb.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;
using Error = std::optional<ValueError>;

// 2^53: a double represents all smaller integers exactly.
constexpr double kExactIntegersBelow = 9007199254740992.0;

Error Expected(const gpb::FieldDescriptor& field, std::string_view what, const Literal& got,
               std::string hint = "") {
  return ValueError{absl::StrFormat("%s expects %s, got %s [TD1103]", field.name(),
                                    std::string(what), got.Shown()),
                    std::move(hint)};
}

std::string NumberText(double v) { return absl::StrFormat("%.12g", v); }

// Returns the allowed values as text. REQUIRES: the knob has a minimum or a maximum.
std::string AllowedText(const Knob& knob) {
  TD_REQUIRE(knob.has_min() || knob.has_max());
  if (!knob.has_max()) return "of at least " + NumberText(knob.min());
  if (!knob.has_min()) return "of at most " + NumberText(knob.max());
  return absl::StrFormat("from %s to %s", NumberText(knob.min()), NumberText(knob.max()));
}

Error CheckRange(const gpb::FieldDescriptor& field, double v) {
  TD_REQUIRE(std::isfinite(v));
  const Knob& knob = field.options().GetExtension(tandem::knob);
  const bool low = knob.has_min() && v < knob.min();
  const bool high = knob.has_max() && v > knob.max();
  if (!low && !high) return std::nullopt;
  const std::string unit = knob.unit().empty() ? "" : " " + knob.unit();
  return ValueError{absl::StrFormat("%s is out of range: %s is %s than %s%s [TD1104]", field.name(),
                                    NumberText(v), low ? "less" : "more",
                                    NumberText(low ? knob.min() : knob.max()), unit),
                    absl::StrFormat("use a value %s%s", AllowedText(knob), unit)};
}

Error NotFinite(const gpb::FieldDescriptor& field, const Literal& literal) {
  return ValueError{
      absl::StrFormat("%s: %s is not a finite number [TD1103]", field.name(), literal.Shown()),
      "write a finite number"};
}

bool IsNotFiniteWord(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower == "nan" || lower == "inf" || lower == "infinity";
}

// Parses a decimal number. It may end with 'f', as in text protos.
bool ParseDouble(std::string text, double* v) {
  if (!text.empty() && (text.back() == 'f' || text.back() == 'F')) text.pop_back();
  return absl::SimpleAtod(text, v);
}

Error GetDouble(const gpb::FieldDescriptor& field, const Literal& literal, double limit,
                double* v) {
  if (literal.kind == Literal::Kind::kIdentifier && IsNotFiniteWord(literal.text)) {
    return NotFinite(field, literal);
  }
  const bool number =
      literal.kind == Literal::Kind::kInteger || literal.kind == Literal::Kind::kFloat;
  uint64_t integer = 0;
  if (literal.kind == Literal::Kind::kInteger &&
      gpb::io::Tokenizer::ParseInteger(literal.text, UINT64_MAX, &integer)) {
    *v = static_cast<double>(integer);
  } else if (!number || !ParseDouble(literal.text, v)) {
    return Expected(field, "a number", literal);
  }
  if (!std::isfinite(*v) || *v > limit) return NotFinite(field, literal);
  if (literal.negative) *v = -*v;
  return CheckRange(field, *v);
}

// Sets *magnitude to the absolute value of an integer. `max`: maximum of *magnitude for a number
// without a minus sign; `max_negative`: maximum for a number with a minus sign.
Error GetInteger(const gpb::FieldDescriptor& field, const Literal& literal, uint64_t max,
                 uint64_t max_negative, uint64_t* magnitude) {
  if (literal.kind == Literal::Kind::kIdentifier && IsNotFiniteWord(literal.text)) {
    return NotFinite(field, literal);
  }
  const uint64_t limit = literal.negative ? max_negative : max;
  double v = 0;
  if (literal.kind == Literal::Kind::kInteger) {
    if (!gpb::io::Tokenizer::ParseInteger(literal.text, limit, magnitude)) {
      return ValueError{absl::StrFormat("%s: %s does not fit into %s [TD1103]", field.name(),
                                        literal.Shown(), field.type_name()),
                        ""};
    }
  } else if (literal.kind == Literal::Kind::kFloat && ParseDouble(literal.text, &v) &&
             v == std::floor(v) && v < kExactIntegersBelow && v <= static_cast<double>(limit)) {
    *magnitude = static_cast<uint64_t>(v);
  } else {
    return Expected(field, "an integer", literal);
  }
  const double value = static_cast<double>(*magnitude);
  return CheckRange(field, literal.negative ? -value : value);
}

Error GetBool(const gpb::FieldDescriptor& field, const Literal& literal, bool* v) {
  const std::string lower = absl::AsciiStrToLower(literal.text);
  const bool word = literal.kind != Literal::Kind::kFloat && !literal.negative;
  if (word && (lower == "true" || lower == "t" || lower == "1")) {
    *v = true;
  } else if (word && (lower == "false" || lower == "f" || lower == "0")) {
    *v = false;
  } else {
    std::string hint = DidYouMean(lower, {"true", "false"});
    if (lower == "yes" || lower == "on" || lower == "y") hint = "write true";
    if (lower == "no" || lower == "off" || lower == "n" || lower == "none") hint = "write false";
    return Expected(field, "true or false", literal, hint);
  }
  return std::nullopt;
}

Error GetEnum(const gpb::FieldDescriptor& field, const Literal& literal,
              const gpb::EnumValueDescriptor** v) {
  const gpb::EnumDescriptor& type = *field.enum_type();
  std::vector<std::string> names;
  if (literal.kind == Literal::Kind::kInteger) {
    int number = 0;
    if (absl::SimpleAtoi(literal.text, &number)) {
      *v = type.FindValueByNumber(literal.negative ? -number : number);
    }
    if (*v != nullptr) return std::nullopt;
  }
  // A name such as "fluid.BuildStrategy.ReduceStrategy.Reduce" is allowed; its last part is the
  // value.
  const std::string name = literal.text.substr(literal.text.rfind('.') + 1);
  for (int i = 0; i < type.value_count(); ++i) {
    const gpb::EnumValueDescriptor& value = *type.value(i);
    names.push_back(value.name());
    bool match = absl::EqualsIgnoreCase(value.name(), name);
    for (const std::string& alias : value.options().GetExtension(knob_value).alias()) {
      match = match || absl::EqualsIgnoreCase(alias, name);
    }
    if (match && !literal.negative) {
      *v = &value;
      return std::nullopt;
    }
  }
  const std::string nearest = DidYouMean(name, names);
  return Expected(field, "one of " + absl::StrJoin(names, ", "), literal, nearest);
}

template <typename T, typename Set, typename Add>
void Store(const gpb::FieldDescriptor& field, gpb::Message* message, T value, Set set, Add add) {
  const gpb::Reflection& reflection = *message->GetReflection();
  if (field.is_repeated()) {
    (reflection.*add)(message, &field, value);
  } else {
    (reflection.*set)(message, &field, value);
  }
}

Error SetInteger(const gpb::FieldDescriptor& field, const Literal& literal, gpb::Message* message) {
  uint64_t magnitude = 0;
  Error error;
  using R = gpb::Reflection;
  const auto positive = [](auto limit) { return static_cast<uint64_t>(limit); };
  // In two's complement the conversion of 0 - magnitude is exact for every value in the range.
  const auto signed_value = [&] {
    return static_cast<int64_t>(literal.negative ? 0 - magnitude : magnitude);
  };
  switch (field.cpp_type()) {
    case gpb::FieldDescriptor::CPPTYPE_INT32:
      error = GetInteger(field, literal, positive(INT32_MAX), positive(INT32_MAX) + 1, &magnitude);
      if (!error) {
        Store(field, message, static_cast<int32_t>(signed_value()), &R::SetInt32, &R::AddInt32);
      }
      break;
    case gpb::FieldDescriptor::CPPTYPE_INT64:
      error = GetInteger(field, literal, positive(INT64_MAX), positive(INT64_MAX) + 1, &magnitude);
      if (!error) Store(field, message, signed_value(), &R::SetInt64, &R::AddInt64);
      break;
    case gpb::FieldDescriptor::CPPTYPE_UINT32:
      error = GetInteger(field, literal, UINT32_MAX, 0, &magnitude);
      if (!error) {
        Store(field, message, static_cast<uint32_t>(magnitude), &R::SetUInt32, &R::AddUInt32);
      }
      break;
    default:
      error = GetInteger(field, literal, UINT64_MAX, 0, &magnitude);
      if (!error) Store(field, message, magnitude, &R::SetUInt64, &R::AddUInt64);
      break;
  }
  return error;
}

Error SetString(const gpb::FieldDescriptor& field, const Literal& literal, gpb::Message* message) {
  if (literal.kind != Literal::Kind::kString) {
    return Expected(field, "a string in quotes", literal,
                    absl::StrCat("write \"", literal.text, "\""));
  }
  const gpb::Reflection& reflection = *message->GetReflection();
  if (field.is_repeated()) {
    reflection.AddString(message, &field, literal.text);
  } else {
    reflection.SetString(message, &field, literal.text);
  }
  return std::nullopt;
}

}  // namespace

std::string Literal::Shown() const {
  constexpr size_t kShownMax = 60;
  std::string shown = negative ? "-" + text : text;
  if (shown.size() > kShownMax) shown = shown.substr(0, kShownMax) + "...";
  return "\"" + absl::Utf8SafeCHexEscape(shown) + "\"";
}

Literal LiteralOf(const gpb::FieldDescriptor& field, std::string_view text) {
  Literal literal;
  std::string s(text);
  if (field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_STRING) {
    literal.kind = Literal::Kind::kString;
    const bool quoted = s.size() >= 2 && (s[0] == '"' || s[0] == '\'') && s.back() == s[0];
    literal.text = quoted ? s.substr(1, s.size() - 2) : s;
    return literal;
  }
  absl::StripAsciiWhitespace(&s);
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    literal.negative = s[0] == '-';
    s.erase(0, 1);
  }
  literal.text = s;
  if (s.empty() || !(absl::ascii_isdigit(s[0]) || s[0] == '.')) return literal;
  uint64_t integer = 0;
  double real = 0;
  const bool hex = absl::StartsWithIgnoreCase(s, "0x");
  if (absl::SimpleAtoi(s, &integer) ||
      (hex && s.size() > 2 && s.find_first_not_of("0123456789abcdefABCDEF", 2) == s.npos)) {
    literal.kind = Literal::Kind::kInteger;
    // Integers in flags are decimal even with a leading zero: 010 is ten.
    if (!hex) literal.text = absl::StrCat(integer);
  } else if (ParseDouble(s, &real)) {
    literal.kind = Literal::Kind::kFloat;
  }
  return literal;
}

std::optional<ValueError> SetFieldValue(const gpb::FieldDescriptor& field, const Literal& literal,
                                        gpb::Message* message) {
  TD_REQUIRE(field.containing_type() == message->GetDescriptor());
  using R = gpb::Reflection;
  Error error;
  double real = 0;
  bool truth = false;
  const gpb::EnumValueDescriptor* value = nullptr;
  switch (field.cpp_type()) {
    case gpb::FieldDescriptor::CPPTYPE_DOUBLE:
      error = GetDouble(field, literal, std::numeric_limits<double>::max(), &real);
      if (!error) Store(field, message, real, &R::SetDouble, &R::AddDouble);
      return error;
    case gpb::FieldDescriptor::CPPTYPE_FLOAT:
      error = GetDouble(field, literal, std::numeric_limits<float>::max(), &real);
      if (!error) Store(field, message, static_cast<float>(real), &R::SetFloat, &R::AddFloat);
      return error;
    case gpb::FieldDescriptor::CPPTYPE_BOOL:
      error = GetBool(field, literal, &truth);
      if (!error) Store(field, message, truth, &R::SetBool, &R::AddBool);
      return error;
    case gpb::FieldDescriptor::CPPTYPE_ENUM:
      error = GetEnum(field, literal, &value);
      if (!error) Store(field, message, value, &R::SetEnum, &R::AddEnum);
      return error;
    case gpb::FieldDescriptor::CPPTYPE_STRING:
      return SetString(field, literal, message);
    case gpb::FieldDescriptor::CPPTYPE_MESSAGE:
      return Expected(field, "a message in { }", literal);
    default:
      return SetInteger(field, literal, message);
  }
}

std::string FieldText(const gpb::Message& message, const gpb::FieldDescriptor& field, int index) {
  TD_REQUIRE(field.containing_type() == message.GetDescriptor());
  const gpb::Reflection& r = *message.GetReflection();
  const bool repeated = index >= 0;
  const auto get = [&](auto one, auto element) {
    return repeated ? (r.*element)(message, &field, index) : (r.*one)(message, &field);
  };
  using R = gpb::Reflection;
  switch (field.cpp_type()) {
    case gpb::FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(get(&R::GetInt32, &R::GetRepeatedInt32));
    case gpb::FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(get(&R::GetInt64, &R::GetRepeatedInt64));
    case gpb::FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(get(&R::GetUInt32, &R::GetRepeatedUInt32));
    case gpb::FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(get(&R::GetUInt64, &R::GetRepeatedUInt64));
    case gpb::FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(get(&R::GetDouble, &R::GetRepeatedDouble));
    case gpb::FieldDescriptor::CPPTYPE_FLOAT:
      return absl::StrFormat("%.7g", get(&R::GetFloat, &R::GetRepeatedFloat));
    case gpb::FieldDescriptor::CPPTYPE_BOOL:
      return get(&R::GetBool, &R::GetRepeatedBool) ? "true" : "false";
    case gpb::FieldDescriptor::CPPTYPE_ENUM:
      return get(&R::GetEnum, &R::GetRepeatedEnum)->name();
    case gpb::FieldDescriptor::CPPTYPE_STRING:
      return get(&R::GetString, &R::GetRepeatedString);
    case gpb::FieldDescriptor::CPPTYPE_MESSAGE:
      return "{ }";
  }
  return "";
}

std::string DefaultText(const gpb::FieldDescriptor& field) {
  if (field.is_repeated() || field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE) return "";
  const gpb::Message* prototype =
      gpb::MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  return prototype == nullptr ? "" : FieldText(*prototype, field);
}

}  // namespace tandem::strategy
