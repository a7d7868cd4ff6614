// Finds fields of a message type by any of their names. Internal to common/strategy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tandem::strategy {

struct FieldPlace {
  // Field descriptors from the root message to the field.
  std::vector<const google::protobuf::FieldDescriptor*> steps;
  std::string path;  // path from the root message, such as "build_strategy.reduce_strategy"

  const google::protobuf::FieldDescriptor& field() const { return *steps.back(); }
  bool holds_fields() const;  // true if the field is a singular message
};

// All fields that can be reached from a root message through singular messages, in the order of the
// proto file. A message comes before its fields. Recursive message types are not entered again.
class FieldIndex {
 public:
  explicit FieldIndex(const google::protobuf::Descriptor& root);

  const std::vector<FieldPlace>& places() const { return places_; }

  // Returns the fields for which `name` is the path, the end of the path, or another spelling. If
  // several fields match, returns only the fields nearest to the root. A field's own name has
  // precedence over other spellings.
  std::vector<const FieldPlace*> Find(std::string_view name) const;

  // Returns the names and other spellings of all fields, for "did you mean" hints.
  std::vector<std::string> Names() const;

 private:
  void Enter(const google::protobuf::Descriptor& type, const FieldPlace& at);

  std::vector<FieldPlace> places_;
};

// Returns the message below `root` that contains the field of `place`. Creates an absent message.
google::protobuf::Message* HolderOf(const FieldPlace& place, google::protobuf::Message* root);

// Returns the paths of the fields as a list. Example: "a.k_steps, b.k_steps".
std::string PathList(const std::vector<const FieldPlace*>& places);

// Returns whether `name` is another spelling of the field, not its own name.
bool IsAlias(const google::protobuf::FieldDescriptor& field, std::string_view name);

// Returns whether the type is DistributedStrategy.
bool IsStrategy(const google::protobuf::Descriptor& type);

// Returns advice for a name that occurs in the guide or in files of Paddle's Fleet, but is no knob
// of Tandem. Returns "" for any other name.
std::string_view InsteadOf(std::string_view name);

}  // namespace tandem::strategy
