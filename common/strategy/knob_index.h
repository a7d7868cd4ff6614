// Finds fields by any of their names, below a message type. Internal to common/strategy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tandem {

struct FieldPlace {
  std::vector<const google::protobuf::FieldDescriptor*> steps;  // from the root to the field
  std::string path;                                             // "build_strategy.reduce_strategy"

  const google::protobuf::FieldDescriptor& field() const { return *steps.back(); }
  bool holds_fields() const;  // a singular message
};

// All fields that are reached from a root through singular messages, in the order of the proto
// file, a message before its fields. Recursive types are not entered again.
class FieldIndex {
 public:
  explicit FieldIndex(const google::protobuf::Descriptor& root);

  const std::vector<FieldPlace>& places() const { return places_; }

  // Those whose path, end of path, or other spelling is `name`. Where several match, only those
  // nearest to the root, and own names before other spellings.
  std::vector<const FieldPlace*> Find(std::string_view name) const;

  // Names and other spellings, for did-you-mean.
  std::vector<std::string> Names() const;

 private:
  void Enter(const google::protobuf::Descriptor& type, const FieldPlace& at);

  std::vector<FieldPlace> places_;
};

// The message that holds the field of `place` below `root`, created where it is absent.
google::protobuf::Message* HolderOf(const FieldPlace& place, google::protobuf::Message* root);

// "a.k_steps, b.k_steps".
std::string PathList(const std::vector<const FieldPlace*>& places);

// Whether `name` is one of the field's other spellings.
bool IsAlias(const google::protobuf::FieldDescriptor& field, std::string_view name);

// Whether the type is DistributedStrategy.
bool IsStrategy(const google::protobuf::Descriptor& type);

// Names that stand in Fleet's guide or files of the reference and are not knobs here: what to do
// instead; "" for any other name.
std::string_view InsteadOf(std::string_view name);

}  // namespace tandem
