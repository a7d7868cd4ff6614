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
  std::vector<const google::protobuf::FieldDescriptor*> steps;  // from the root to the field
  std::string path;                                             // "build_strategy.reduce_strategy"

  const google::protobuf::FieldDescriptor& field() const { return *steps.back(); }
  bool holds_fields() const;  // a singular message
};

// All fields that are reachable from a root through singular messages, in the order of the proto
// file. A message precedes its fields. Recursive types are not entered again.
class FieldIndex {
 public:
  explicit FieldIndex(const google::protobuf::Descriptor& root);

  const std::vector<FieldPlace>& places() const { return places_; }

  // Returns the fields whose path, end of path, or other spelling is `name`. If several match,
  // returns only those nearest to the root. A field's own name has precedence over other spellings.
  std::vector<const FieldPlace*> Find(std::string_view name) const;

  // Returns names and other spellings, for did-you-mean.
  std::vector<std::string> Names() const;

 private:
  void Enter(const google::protobuf::Descriptor& type, const FieldPlace& at);

  std::vector<FieldPlace> places_;
};

// Returns the message below `root` that holds the field of `place`. Creates it if it is absent.
google::protobuf::Message* HolderOf(const FieldPlace& place, google::protobuf::Message* root);

// Example: "a.k_steps, b.k_steps".
std::string PathList(const std::vector<const FieldPlace*>& places);

// Returns whether `name` is one of the field's other spellings.
bool IsAlias(const google::protobuf::FieldDescriptor& field, std::string_view name);

// Returns whether the type is DistributedStrategy.
bool IsStrategy(const google::protobuf::Descriptor& type);

// For names that occur in Fleet's guide or in files of the reference but are not knobs here:
// returns the alternative. "" for any other name.
std::string_view InsteadOf(std::string_view name);

}  // namespace tandem::strategy
