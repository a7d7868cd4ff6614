#include "common/strategy/knobs.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

constexpr char kKnobsUsage[] =
    "tandem knobs list            lists the settings of a job's strategy, one per line\ntandem "
    "knobs explain NAME    explains one setting: effect, unit, range, default, other "
    "spellings\ntandem knobs markdown        explains all settings, as docs/reference/knobs.md\n";

std::string KnobsJson(const std::vector<strategy::KnobInfo>& knobs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const strategy::KnobInfo& knob : knobs) {
    all.push_back({{"knob", knob.path},
                   {"type", knob.type},
                   {"default", knob.default_value},
                   {"unit", knob.unit},
                   {"range", knob.range},
                   {"modes", knob.modes},
                   {"aliases", knob.aliases},
                   {"built", knob.built},
                   {"doc", knob.doc}});
  }
  return all.dump(2) + "\n";
}

}  // namespace

int RunKnobs(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  if (!ParseOrExplain("knobs", kKnobsUsage, {kOutputFlag}, args, &parsed, &exit_code))
    return exit_code;
  const StatusOr<bool> as_json = WantsJson(parsed);
  if (!as_json.ok()) return Fail("knobs", as_json.status());
  const Args& words = parsed.positional;
  if (!words.empty() && (words[0] == "list" || words[0] == "markdown")) {
    if (const Status status = TakesAtMost(1, parsed); !status.ok()) return Fail("knobs", status);
  }
  if (words.size() == 1 && words[0] == "list") {
    std::fputs((*as_json ? KnobsJson(strategy::ListKnobs()) : strategy::KnobsTable()).c_str(),
               stdout);
    return 0;
  }
  if (words.size() == 1 && words[0] == "markdown") {
    std::fputs(strategy::KnobsMarkdown().c_str(), stdout);
    return 0;
  }
  if (words.size() >= 2 && words[0] == "explain") {
    std::vector<strategy::KnobInfo> all;
    for (size_t i = 1; i < words.size(); ++i) {
      const StatusOr<std::vector<strategy::KnobInfo>> found = strategy::FindKnobs(words[i]);
      if (!found.ok()) return Fail("knobs", found.status());
      all.insert(all.end(), found->begin(), found->end());
    }
    std::fputs((*as_json ? KnobsJson(all) : strategy::ExplainKnobs(all)).c_str(), stdout);
    return 0;
  }
  if (words.size() == 1 && words[0] == "explain") {
    return Fail(
        "knobs",
        InvalidArgument(
            "the name of a knob is missing [TD1007]; hint: run tandem knobs explain a_sync"));
  }
  if (words.empty())
    return Fail("knobs", InvalidArgument("the subcommand is missing, expected list, explain or "
                                         "markdown [TD1007]; hint: run tandem knobs list"));
  return Fail("knobs",
              InvalidArgument("expected list, explain or markdown, got \"%s\" [TD1006]%s", words[0],
                              HintText(words[0], {"list", "explain", "markdown"})));
}

}  // namespace tandem::deploy
