#include "deploy/launch/options/flag_table.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/nearest.h"
#include "common/base/require.h"

namespace tandem::deploy {
namespace {

std::vector<std::string> NamesOf(const FlagSpec& spec) {
  std::vector<std::string> names = {spec.name};
  for (const auto alias : absl::StrSplit(spec.aliases, ' ', absl::SkipEmpty())) {
    names.emplace_back(alias);
  }
  return names;
}

const FlagSpec* Find(const std::vector<FlagSpec>& table, const std::string& name) {
  for (const FlagSpec& spec : table) {
    const std::vector<std::string> names = NamesOf(spec);
    if (std::find(names.begin(), names.end(), name) != names.end()) return &spec;
  }
  return nullptr;
}

Status UnknownFlag(const std::vector<FlagSpec>& table, const std::string& name,
                   const HandedOn* handed_on) {
  std::vector<std::string> known;
  for (const FlagSpec& spec : table) {
    for (std::string& n : NamesOf(spec)) known.push_back("--" + n);
  }
  std::string hint = HintText("--" + name, known);
  if (hint.empty() && handed_on != nullptr) {
    for (const std::string& n : handed_on->names) known.push_back("--" + n);
    hint = HintText("--" + name, known);
    if (hint.empty()) hint = "; hint: " + handed_on->otherwise;
  }
  return InvalidArgument("unknown flag \"--%s\" [TD1002]%s", name, hint);
}

// Passes a flag that `handed_on` accepts to the other program. The flag must have the form
// `--name=value`, because this program does not know whether the flag has a value.
Status HandOn(const std::string& spelled, const std::string& name, const std::string& arg,
              ParsedArgs& parsed) {
  if (spelled.size() == arg.size()) {
    return InvalidArgument("%s needs a value [TD1003]; hint: write --%s=VALUE", spelled, name);
  }
  parsed.after_dashes.push_back("--" + name + arg.substr(spelled.size()));
  ++parsed.handed_on;
  return OkStatus();
}

bool OptionalValue(const FlagSpec& spec) { return *spec.value == '['; }

// Parses the flag args[at] and its value, which may be args[at + 1]. Sets `at` to the index of the
// last argument that belongs to the flag.
Status ParseFlag(const std::vector<FlagSpec>& table, const std::vector<std::string>& args,
                 const HandedOn* handed_on, size_t& at, ParsedArgs& parsed) {
  const std::string& arg = args[at];
  const size_t equals = arg.find('=');
  const std::string spelled = arg.substr(0, equals);
  std::string name = spelled.substr(spelled.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '-', '_');
  const FlagSpec* spec = Find(table, name);
  if (spec == nullptr && handed_on != nullptr && handed_on->takes(name)) {
    return HandOn(spelled, name, arg, parsed);
  }
  if (spec == nullptr) return UnknownFlag(table, name, handed_on);

  ParsedArgs::Value value{"true", spelled};
  if (equals != std::string::npos) {
    value.text = arg.substr(equals + 1);
    if (*spec->value == '\0' && value.text != "true" && value.text != "false") {
      return InvalidArgument("%s takes no value, got \"%s\" [TD1010]; hint: remove the value: %s",
                             spelled, value.text, spelled);
    }
  } else if (*spec->value != '\0' && !OptionalValue(*spec)) {
    if (at + 1 >= args.size())
      return InvalidArgument("%s needs a value of the form %s [TD1003]", spelled, spec->value);
    value.text = args[++at];
  }
  if (value.text == "false" && *spec->value == '\0') return OkStatus();
  const auto [it, inserted] = parsed.flags.emplace(spec->name, value);
  if (!inserted) {
    return InvalidArgument("%s is given twice: %s=%s and %s=%s [TD1102]",
                           std::string("--") + spec->name, it->second.spelled, it->second.text,
                           spelled, value.text);
  }
  return OkStatus();
}

}  // namespace

std::string ParsedArgs::Get(const std::string& name, const std::string& fallback) const {
  const auto it = flags.find(name);
  return it == flags.end() ? fallback : it->second.text;
}

StatusOr<int> ParsedArgs::GetInt(const std::string& name, int fallback, int min, int max) const {
  TD_REQUIRE(min <= max);
  const auto it = flags.find(name);
  if (it == flags.end()) return fallback;
  const std::string& text = it->second.text;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return InvalidArgument("%s: expected a whole number from %d to %d, got \"%s\" [TD1004]",
                           it->second.spelled, min, max, text);
  }
  return value;
}

StatusOr<double> ParsedArgs::GetDouble(const std::string& name, double fallback, double min,
                                       double max) const {
  TD_REQUIRE(min <= max);
  const auto it = flags.find(name);
  if (it == flags.end()) return fallback;
  double value = 0;
  if (!absl::SimpleAtod(it->second.text, &value) || !(value >= min && value <= max)) {
    return InvalidArgument("%s: expected a number from %g to %g, got \"%s\" [TD1004]",
                           it->second.spelled, min, max, it->second.text);
  }
  return value;
}

StatusOr<ParsedArgs> ParseArgs(const std::vector<FlagSpec>& table,
                               const std::vector<std::string>& args, const HandedOn* handed_on) {
  ParsedArgs parsed;
  const auto add_rest = [&](size_t i) {
    const auto rest = args.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    parsed.after_dashes.insert(parsed.after_dashes.end(), rest, args.end());
  };
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      add_rest(i);
      break;
    }
    // A single "-" means standard input or output, so it is not a flag.
    if (args[i].size() < 2 || args[i][0] != '-' ||
        args[i].find_first_not_of('-') == std::string::npos) {
      parsed.positional.push_back(args[i]);
      if (handed_on == nullptr || !handed_on->takes_rest_after ||
          !handed_on->takes_rest_after(args[i])) {
        continue;
      }
      add_rest(i);
      break;
    }
    TD_RETURN_IF_ERROR(ParseFlag(table, args, handed_on, i, parsed));
  }
  return parsed;
}

std::string FlagHelp(const std::vector<FlagSpec>& table) {
  std::string text;
  for (const FlagSpec& spec : table) {
    std::string left = std::string("--") + spec.name;
    if (*spec.value != '\0') left += (OptionalValue(spec) ? "" : "=") + std::string(spec.value);
    text += absl::StrFormat("  %-28s %s", left, spec.help);
    std::vector<std::string> names = NamesOf(spec);
    for (size_t i = 1; i < names.size(); ++i) text += (i == 1 ? " (also --" : ", --") + names[i];
    text += names.size() > 1 ? ")\n" : "\n";
  }
  return text;
}

std::string HintText(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(word, candidates);
  return nearest.empty() ? "" : "; hint: did you mean \"" + nearest + "\"?";
}

}  // namespace tandem::deploy
