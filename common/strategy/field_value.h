// Sets a field from a value of a file or a flag, and checks its type and range.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tandem::strategy {

struct Literal {
  enum class Kind { kIdentifier, kInteger, kFloat, kString };
  Kind kind = Kind::kIdentifier;
  std::string text;       // number: without sign; string: without quotes, unescaped
  bool negative = false;  // true: a '-' preceded it

  std::string Shown() const;  // for messages, shortened
};

// Returns the literal for the text of a flag or an environment variable, for this field.
Literal LiteralOf(const google::protobuf::FieldDescriptor& field, std::string_view text);

struct ValueError {
  std::string message;  // without location
  std::string hint;
};

// Sets a singular field (not a message) or appends to a repeated one. On an error nothing is
// changed.
std::optional<ValueError> SetFieldValue(const google::protobuf::FieldDescriptor& field,
                                        const Literal& literal, google::protobuf::Message* message);

// Returns the value of a singular field (set or not), or of element `index` of a repeated one, as
// text. Strings have no quotes.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field, int index = -1);

// Returns the default of a singular field as text; "" for a repeated one.
std::string DefaultText(const google::protobuf::FieldDescriptor& field);

}  // namespace tandem::strategy
