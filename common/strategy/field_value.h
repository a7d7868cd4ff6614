// One value, as written in a file or a flag, put into a field with its type and range checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tandem {

struct Literal {
  enum class Kind { kIdentifier, kInteger, kFloat, kString };
  Kind kind = Kind::kIdentifier;
  std::string text;       // number: without sign; string: without quotes, unescaped
  bool negative = false;  // a '-' stood before it

  std::string Shown() const;  // for messages, shortened
};

// What a flag or an environment variable holds, for this field.
Literal LiteralOf(const google::protobuf::FieldDescriptor& field, std::string_view text);

struct ValueError {
  std::string message;  // without place
  std::string hint;
};

// Sets a singular field (not a message), adds to a repeated one. On an error nothing is changed.
std::optional<ValueError> SetFieldValue(const google::protobuf::FieldDescriptor& field,
                                        const Literal& literal, google::protobuf::Message* message);

// The value of a set or unset singular field, or of element `index` of a repeated one, as text;
// strings without quotes.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field, int index = -1);

// The default of a singular field as text, "" for a repeated one.
std::string DefaultText(const google::protobuf::FieldDescriptor& field);

}  // namespace tandem
