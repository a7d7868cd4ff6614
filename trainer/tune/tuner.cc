#include "trainer/tune/tuner.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/base/require.h"

namespace tandem::trainer {
namespace {

// A choice that is compared with the current settings.
struct Candidate {
  Settings settings;           // the current settings and the settings of the choice
  std::string shown;           // text of the choice for the user
  std::vector<double> shares;  // step time / step time with the current settings, for each round
  std::string skipped;
};

double Median(std::vector<double> values) {
  TD_REQUIRE(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double Worst(const Candidate& c) { return *std::max_element(c.shares.begin(), c.shares.end()); }
double Best(const Candidate& c) { return *std::min_element(c.shares.begin(), c.shares.end()); }

class Search {
 public:
  Search(const Trial& trial, const TunerOptions& options) : trial_(trial), options_(options) {}

  StatusOr<Settings> Run(std::span<const Tunable> tunables) {
    TD_ASSIGN_OR_RETURN(const double before, Seconds());
    options_.tell(
        absl::StrFormat("a step takes %.3g ms with the settings of the job", before * 1e3));
    for (const Tunable& tunable : tunables) TD_RETURN_IF_ERROR(Try(tunable));
    if (chosen_.empty()) {
      options_.tell("no setting is changed");
      return chosen_;
    }
    TD_ASSIGN_OR_RETURN(const double after, Seconds());
    options_.tell(absl::StrFormat("a step takes %.3g ms, %.2f of the initial time, with %s",
                                  after * 1e3, after / before, ToString(chosen_)));
    return chosen_;
  }

 private:
  // Returns the seconds per step with the current settings, which are the settings chosen so far.
  StatusOr<double> Seconds() {
    TD_ASSIGN_OR_RETURN(const TrialResult result, trial_(chosen_));
    if (result.skipped.empty()) return result.seconds;
    return FailedPrecondition("no setting can be measured: %s", result.skipped);
  }

  Status Try(const Tunable& tunable) {
    std::vector<Candidate> candidates;
    for (const Settings& choice : tunable.choices) {
      Candidate c{.settings = chosen_, .shown = ToString(choice), .shares = {}, .skipped = {}};
      c.settings.insert(c.settings.end(), choice.begin(), choice.end());
      candidates.push_back(std::move(c));
    }
    for (int round = 0; round < options_.rounds; ++round) {
      TD_RETURN_IF_ERROR(Round(candidates));
    }
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates) {
      if (c.skipped.empty() && Median(c.shares) < options_.worth && Worst(c) < 1 &&
          (best == nullptr || Median(c.shares) < Median(best->shares))) {
        best = &c;
      }
    }
    Say(tunable, candidates, best);
    if (best != nullptr) chosen_ = best->settings;
    return OkStatus();
  }

  // Measures each candidate that may still be accepted, and the current settings.
  Status Round(std::vector<Candidate>& candidates) {
    double held = 0;  // seconds with the current settings; 0: not measured
    for (Candidate& c : candidates) {
      if (!c.skipped.empty() || (!c.shares.empty() && Worst(c) >= 1)) continue;
      TD_ASSIGN_OR_RETURN(const TrialResult result, trial_(c.settings));
      c.skipped = result.skipped;
      if (!c.skipped.empty()) continue;
      if (held == 0) {
        TD_ASSIGN_OR_RETURN(held, Seconds());
      }
      c.shares.push_back(result.seconds / held);
    }
    return OkStatus();
  }

  void Say(const Tunable& tunable, const std::vector<Candidate>& candidates,
           const Candidate* best) const {
    std::vector<std::string> parts;
    for (const Candidate& c : candidates) {
      parts.push_back(c.skipped.empty()
                          ? absl::StrFormat("%s takes %.2f of the initial time (%.2f to %.2f)",
                                            c.shown, Median(c.shares), Best(c), Worst(c))
                          : absl::StrFormat("%s was not measured: %s", c.shown, c.skipped));
    }
    options_.tell(absl::StrFormat("%s: %s: %s", tunable.what, absl::StrJoin(parts, "; "),
                                  best == nullptr ? "not changed" : best->shown + " is chosen"));
  }

  const Trial& trial_;
  const TunerOptions& options_;
  Settings chosen_;
};

}  // namespace

StatusOr<Settings> Tune(std::span<const Tunable> tunables, const Trial& trial,
                        const TunerOptions& options) {
  TD_REQUIRE(options.rounds > 0 && options.tell != nullptr);
  return Search(trial, options).Run(tunables);
}

std::string ToString(const Settings& settings) {
  return absl::StrJoin(settings, ", ", [](std::string* out, const auto& setting) {
    *out += setting.first + "=" + setting.second;
  });
}

}  // namespace tandem::trainer
