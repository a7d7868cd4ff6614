#include "common/strategy/knobs.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/nearest.h"
#include "common/strategy/field_value.h"
#include "common/strategy/knob_index.h"
#include "proto/knob.pb.h"
#include "proto/strategy.pb.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;

std::string TypeText(const gpb::FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_ENUM) {
    std::vector<std::string> names;
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      names.push_back(field.enum_type()->value(i)->name());
    }
    type = absl::StrJoin(names, "|");
  }
  return field.is_repeated() ? "list of " + type : type;
}

std::string LimitText(double v) { return absl::StrFormat("%.15g", v); }

std::string RangeText(const Knob& options) {
  if (options.has_min() && options.has_max()) {
    return LimitText(options.min()) + ".." + LimitText(options.max());
  }
  if (options.has_min()) return ">= " + LimitText(options.min());
  return options.has_max() ? "<= " + LimitText(options.max()) : "";
}

KnobInfo InfoOf(const FieldPlace& place) {
  const gpb::FieldDescriptor& field = place.field();
  const Knob& options = field.options().GetExtension(knob);
  KnobInfo info;
  info.path = place.path;
  info.type = TypeText(field);
  const bool has_default = field.has_default_value();
  info.default_value = has_default ? DefaultText(field) : "";
  info.unit = options.unit();
  info.range = RangeText(options);
  for (int mode : options.mode()) {
    info.modes.push_back(absl::AsciiStrToLower(Knob::Mode_Name(static_cast<Knob::Mode>(mode))));
  }
  info.aliases.assign(options.alias().begin(), options.alias().end());
  info.doc = options.doc();
  info.why = options.why();
  info.built = options.built();
  info.tuning = options.tuning();
  info.built_values.assign(options.built_value().begin(), options.built_value().end());
  info.effect_test = options.effect_test();
  return info;
}

std::string BuiltText(const KnobInfo& info) {
  if (!info.built) return "no";
  if (info.built_values.empty()) return "yes";
  return "only " + absl::StrJoin(info.built_values, ", ");
}

std::string OrNone(const std::string& text) { return text.empty() ? "-" : text; }

std::string ModesText(const KnobInfo& info) {
  return info.modes.empty() ? "all" : absl::StrJoin(info.modes, ", ");
}

void AppendLine(const std::string& name, const std::string& value, std::string* text) {
  if (!value.empty()) absl::StrAppend(text, absl::StrFormat("  %-15s%s\n", name + ":", value));
}

std::string Explain(const KnobInfo& info) {
  std::string text = info.path + "\n";
  AppendLine("what", info.doc, &text);
  AppendLine("type", info.type, &text);
  AppendLine("default", OrNone(info.default_value), &text);
  AppendLine("why", info.why, &text);
  AppendLine("unit", info.unit, &text);
  AppendLine("range", info.range, &text);
  AppendLine("modes", ModesText(info), &text);
  AppendLine("elsewhere",
             info.modes.empty() ? ""
             : info.tuning      ? "reported, no effect"
                                : "refused",
             &text);
  AppendLine("also written", absl::StrJoin(info.aliases, ", "), &text);
  AppendLine("built", BuiltText(info), &text);
  AppendLine("effect test", info.effect_test, &text);
  return text;
}

std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string Code(const std::string& text) { return text.empty() ? "" : "`" + Cell(text) + "`"; }

std::string MarkdownRow(const KnobInfo& info) {
  const size_t dot = info.path.rfind('.');
  const std::string name = dot == std::string::npos ? info.path : info.path.substr(dot + 1);
  std::string range = info.range;
  if (!info.unit.empty()) range += (range.empty() ? "" : " ") + info.unit;
  std::string doc = info.doc;
  if (!info.why.empty()) doc += " *Default:* " + info.why;
  std::vector<std::string> aliases;
  for (const std::string& alias : info.aliases) aliases.push_back(Code(alias));
  return absl::StrCat("| `", name, "` | ", Cell(info.type), " | ", Code(info.default_value), " | ",
                      range, " | ", ModesText(info), " | ", BuiltText(info), " | ",
                      Code(info.effect_test), " | ", absl::StrJoin(aliases, " "), " | ", Cell(doc),
                      " |\n");
}

}  // namespace

std::vector<KnobInfo> ListKnobs() {
  std::vector<KnobInfo> list;
  const FieldIndex index(*DistributedStrategy::descriptor());
  for (const FieldPlace& place : index.places()) {
    if (!place.holds_fields()) list.push_back(InfoOf(place));
  }
  return list;
}

std::string KnobsTable() {
  const std::vector<KnobInfo> list = ListKnobs();
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "TYPE", "DEFAULT", "UNIT", "BUILT", "MODES"}};
  for (const KnobInfo& info : list) {
    rows.push_back({info.path, info.type, OrNone(info.default_value), OrNone(info.unit),
                    BuiltText(info), ModesText(info)});
  }
  std::vector<size_t> width(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const bool last = c + 1 == row.size();
      text += row[c] + (last ? "\n" : std::string(width[c] + 2 - row[c].size(), ' '));
    }
  }
  return text;
}

std::string ExplainKnobs(const std::vector<KnobInfo>& knobs) {
  std::string text;
  for (const KnobInfo& knob : knobs) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", Explain(knob));
  }
  return text;
}

StatusOr<std::vector<KnobInfo>> FindKnobs(std::string_view name) {
  const FieldIndex index(*DistributedStrategy::descriptor());
  std::vector<KnobInfo> found;
  for (const FieldPlace* place : index.Find(name)) {
    if (!place->holds_fields()) {
      found.push_back(InfoOf(*place));
      continue;
    }
    for (const FieldPlace& inner : index.places()) {
      if (inner.steps.size() != place->steps.size() + 1) continue;
      if (inner.steps[place->steps.size() - 1] != place->steps.back()) continue;
      found.push_back(InfoOf(inner));
    }
  }
  if (!found.empty()) return found;
  const std::string_view instead = InsteadOf(name);
  const std::string hint = instead.empty() ? DidYouMean(name, index.Names()) : std::string(instead);
  return NotFound("there is no knob \"%s\" [TD1101]%s", std::string(name),
                  hint.empty() ? "" : "; " + hint);
}

std::string KnobsMarkdown() {
  const std::vector<KnobInfo> list = ListKnobs();
  const auto built =
      std::count_if(list.begin(), list.end(), [](const KnobInfo& k) { return k.built; });
  std::string text = absl::StrCat(
      "# Knobs\n\n"
      "Generated from `proto/strategy.proto` by `TANDEM_UPDATE=1 build/tests/knobs_test`;\n"
      "do not edit. ",
      list.size(), " knobs, ", built,
      " of them built. A knob that is not built is refused when it is set to something else than\n"
      "its default. In a mode that is not listed a knob is refused; one that is a matter of speed "
      "or\n"
      "memory alone is reported as without effect.\n");
  // The page has one table for each message. The tables have the order of the messages' first
  // fields.
  std::vector<std::pair<std::string, std::string>> sections;
  for (const KnobInfo& info : list) {
    const size_t dot = info.path.rfind('.');
    const std::string here = dot == std::string::npos ? "" : "." + info.path.substr(0, dot);
    auto section = std::find_if(sections.begin(), sections.end(),
                                [&](const auto& s) { return s.first == here; });
    if (section == sections.end()) section = sections.insert(section, {here, ""});
    section->second += MarkdownRow(info);
  }
  for (const auto& [name, rows] : sections) {
    absl::StrAppend(&text, "\n## strategy", name, "\n\n",
                    "| Knob | Type | Default | Range | Modes | Built | Effect test | Also written "
                    "| What it does |\n|--|--|--|--|--|--|--|--|--|\n",
                    rows);
  }
  return text;
}

}  // namespace tandem::strategy
