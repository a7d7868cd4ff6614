#include "common/strategy/strategy.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/strategy/field_value.h"
#include "common/strategy/knob_index.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;

std::string WithHint(const std::string& message, const std::string& hint) {
  return hint.empty() ? message : message + "; hint: " + hint;
}

// Splits a list in the form "a,b" or "[a, b]" into its elements.
std::vector<std::string> ListElements(std::string_view value) {
  std::string text(value);
  absl::StripAsciiWhitespace(&text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  std::vector<std::string> elements;
  for (absl::string_view piece : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    elements.emplace_back(absl::StripAsciiWhitespace(piece));
  }
  return elements;
}

StatusOr<const FieldPlace*> FindForOverride(const FieldIndex& index, std::string_view name_in,
                                            const std::vector<std::string>& also) {
  const std::string name(name_in);
  const auto found = index.Find(name);
  if (found.empty()) {
    const std::string_view instead = InsteadOf(name);
    std::vector<std::string> names = index.Names();
    if (name.find('.') != std::string::npos) {
      for (const FieldPlace& place : index.places()) names.push_back(place.path);
    }
    names.insert(names.end(), also.begin(), also.end());
    const std::string hint = instead.empty() ? DidYouMean(name, names) : std::string(instead);
    return InvalidArgument("%s", WithHint("there is no setting \"" + name + "\" [TD1101]", hint));
  }
  if (found.size() > 1) {
    return InvalidArgument("\"%s\" is the name of several settings [TD1110]; write one of: %s",
                           name, PathList(found));
  }
  const FieldPlace* place = found[0];
  if (place->field().is_repeated() && place->field().message_type() != nullptr) {
    return InvalidArgument("\"%s\" is a list of messages, which can be set only in a file [TD1103]",
                           name);
  }
  if (place->field().cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE) {
    return InvalidArgument(
        "\"%s\" is a group of settings and has no value [TD1103]; hint: name one setting of the "
        "group, as in %s.FIELD=value",
        name, place->path);
  }
  return place;
}

// Returns a new message of the type that contains the field of `place`. Only this field is set.
StatusOr<std::unique_ptr<gpb::Message>> ParseOverride(const FieldPlace& place,
                                                      std::string_view value) {
  const gpb::FieldDescriptor& field = place.field();
  const gpb::Message* prototype =
      gpb::MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  std::unique_ptr<gpb::Message> scratch(prototype->New());
  std::vector<std::string> values = {std::string(value)};
  if (field.is_repeated()) values = ListElements(value);
  for (const std::string& one : values) {
    const auto error = SetFieldValue(field, LiteralOf(field, one), scratch.get());
    if (error.has_value()) return InvalidArgument("%s", WithHint(error->message, error->hint));
  }
  return scratch;
}

bool LooksLikeEnvironment(const std::string& name) {
  if (absl::StartsWith(name, "FLAGS_")) return true;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isupper(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

// Returns the message that contains the field of `place`. If the message is absent, returns its
// default instance.
const gpb::Message& ConstHolderOf(const FieldPlace& place, const gpb::Message& root) {
  const gpb::Message* holder = &root;
  for (size_t i = 0; i + 1 < place.steps.size(); ++i) {
    holder = &holder->GetReflection()->GetMessage(*holder, place.steps[i]);
  }
  return *holder;
}

std::string ValueText(const gpb::Message& holder, const gpb::FieldDescriptor& field) {
  if (!field.is_repeated()) return FieldText(holder, field);
  std::string text = "[";
  const int size = holder.GetReflection()->FieldSize(holder, &field);
  for (int i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    if (field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE) {
      const gpb::Message& element = holder.GetReflection()->GetRepeatedMessage(holder, &field, i);
      text += "{" + element.ShortDebugString() + "}";
    } else {
      text += FieldText(holder, field, i);
    }
  }
  return text + "]";
}

bool IsDefault(const gpb::Message& holder, const gpb::FieldDescriptor& field) {
  const gpb::Reflection& reflection = *holder.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(holder, &field) == 0;
  if (!reflection.HasField(holder, &field)) return true;
  return field.has_default_value() && FieldText(holder, field) == DefaultText(field);
}

}  // namespace

Status ApplyOverride(gpb::Message* root, std::string_view name, std::string_view value,
                     const Origin& origin, Origins* origins, const std::vector<std::string>& also) {
  const FieldIndex index(*root->GetDescriptor());
  const auto place = FindForOverride(index, name, also);
  if (!place.ok()) return Annotate(place.status(), origin.ToString());
  const FieldPlace& target = **place;
  auto scratch = ParseOverride(target, value);
  if (!scratch.ok()) return Annotate(scratch.status(), origin.ToString());
  const Origin before = origins->Of(target.path);
  if (before.kind > origin.kind) return OkStatus();
  gpb::Message* holder = HolderOf(target, root);
  holder->GetReflection()->SwapFields(holder, scratch->get(), {&target.field()});
  Origin now = origin;
  if (before.kind != OriginKind::kDefault) now.over = before.ToString();
  origins->Set(target.path, now);
  return OkStatus();
}

void ApplyEnvironment(gpb::Message* root, const std::map<std::string, std::string>& environment,
                      Origins* origins, Diagnostics* diagnostics) {
  const FieldIndex index(*root->GetDescriptor());
  for (const auto& [name, value] : environment) {
    // Skips variables that begin with NCCL_, because they belong to the NCCL library.
    if (!LooksLikeEnvironment(name) || absl::StartsWith(name, "NCCL_")) continue;
    const SourcePlace place = EnvironmentOrigin(name).place;
    const auto found = index.Find(name);
    if (found.size() == 1 && IsAlias(found[0]->field(), name)) {
      const Status status =
          ApplyOverride(root, found[0]->path, value, EnvironmentOrigin(name), origins);
      if (!status.ok()) diagnostics->Error(SourcePlace(), std::string(status.message()));
    } else if (absl::StartsWith(name, "FLAGS_")) {
      const std::string_view instead = InsteadOf(name);
      const std::string hint =
          instead.empty() ? DidYouMean(name, index.Names()) : std::string(instead);
      diagnostics->Note(place, "not a knob of Tandem, has no effect", hint);
    }
  }
}

std::string SaveText(const gpb::Message& message) {
  gpb::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  printer.SetHideUnknownFields(true);
  std::string text;
  CHECK(printer.PrintToString(message, &text));
  return text;
}

std::string EffectiveText(const gpb::Message& root, const Origins& origins) {
  std::string text;
  const FieldIndex index(*root.GetDescriptor());
  for (const FieldPlace& place : index.places()) {
    const gpb::FieldDescriptor& field = place.field();
    const gpb::Message& holder = ConstHolderOf(place, root);
    if (place.holds_fields() || IsDefault(holder, field)) continue;
    const Origin origin = origins.Of(place.path);
    const std::string over = origin.over.empty() ? "" : ", over " + origin.over;
    absl::StrAppend(&text, place.path, ": ", ValueText(holder, field), "   (", origin.ToString(),
                    over, ")\n");
  }
  return text;
}

}  // namespace tandem::strategy
