// Sets a message's field from a value in a file or a flag. Checks type and range of the value.
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
  std::string text;       // a number without its sign, or a string without quotes and unescaped
  bool negative = false;  // true: a '-' was in front of the number

  std::string Shown() const;  // the value in a shortened form, for messages
};

// Converts the text of a flag or an environment variable to a literal for `field`.
Literal LiteralOf(const google::protobuf::FieldDescriptor& field, std::string_view text);

struct ValueError {
  std::string message;  // error message without the location of the value
  std::string hint;
};

// Sets a singular field that is not a message, or appends to a repeated field. Returns the error,
// or nullopt. After an error, `message` is not changed.
std::optional<ValueError> SetFieldValue(const google::protobuf::FieldDescriptor& field,
                                        const Literal& literal, google::protobuf::Message* message);

// Returns the value of a singular field, or of element `index` of a repeated field, as text. An
// unset singular field has its default value. Strings have no quotes.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field, int index = -1);

// Returns the default of a singular field as text, or "" for a repeated field.
std::string DefaultText(const google::protobuf::FieldDescriptor& field);

}  // namespace tandem::strategy
