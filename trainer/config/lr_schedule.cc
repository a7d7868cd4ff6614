#include "trainer/config/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/base/require.h"
#include "proto/job.pb.h"

namespace tandem::trainer {
namespace {

using Config = LearningRateSchedule;

bool IsNonNegative(double value) { return std::isfinite(value) && value >= 0; }

// Rejects each field that the job sets although the job's kind of schedule does not use it.
Status CheckUnused(const Config& config) {
  const auto kind = config.kind();
  const bool piecewise = kind == Config::PIECEWISE, exponential = kind == Config::EXPONENTIAL;
  const bool to_end = kind == Config::COSINE || kind == Config::POLYNOMIAL;
  const struct {
    const char* field;
    bool is_set, used;
    const char* kinds;
  } rows[] = {
      {"boundary", config.boundary_size() > 0, piecewise, "PIECEWISE"},
      {"value", config.value_size() > 0, piecewise, "PIECEWISE"},
      {"decay_steps", config.has_decay_steps(), exponential || to_end,
       "EXPONENTIAL, COSINE and POLYNOMIAL"},
      {"decay_rate", config.has_decay_rate(), exponential, "EXPONENTIAL"},
      {"staircase", config.has_staircase(), exponential, "EXPONENTIAL"},
      {"end_factor", config.has_end_factor(), to_end, "COSINE and POLYNOMIAL"},
      {"power", config.has_power(), kind == Config::POLYNOMIAL, "POLYNOMIAL"},
  };
  for (const auto& row : rows) {
    if (row.is_set && !row.used) {
      return InvalidArgument("schedule.%s has no effect with kind: %s, expected kind: %s [TD1107]",
                             row.field, Config::Kind_Name(kind), row.kinds);
    }
  }
  return OkStatus();
}

Status CheckPiecewise(const Config& config) {
  if (config.kind() != Config::PIECEWISE) return OkStatus();
  if (config.value_size() != config.boundary_size() + 1) {
    return InvalidArgument("schedule: %d boundaries need %d values, but %d are given [TD1104]",
                           config.boundary_size(), config.boundary_size() + 1, config.value_size());
  }
  int64_t last = 0;
  for (const int64_t boundary : config.boundary()) {
    if (boundary <= last) {
      return InvalidArgument(
          "schedule.boundary: %d follows %d, but boundaries must ascend and start at 1 or more "
          "[TD1104]",
          boundary, last);
    }
    last = boundary;
  }
  for (const float value : config.value()) {
    if (!IsNonNegative(value)) {
      return InvalidArgument("schedule.value is %g, expected at least 0 [TD1104]", value);
    }
  }
  return OkStatus();
}

Status CheckRanges(const Config& config, double learning_rate) {
  if (!IsNonNegative(learning_rate)) {
    return InvalidArgument("learning_rate is %g, expected at least 0 [TD1104]", learning_rate);
  }
  if (config.warmup_steps() < 0) {
    return InvalidArgument("schedule.warmup_steps is %d, expected at least 0 [TD1104]",
                           config.warmup_steps());
  }
  if (config.decay_steps() < 0) {
    return InvalidArgument("schedule.decay_steps is %d, expected at least 0 [TD1104]",
                           config.decay_steps());
  }
  if (!IsNonNegative(config.decay_rate())) {
    return InvalidArgument("schedule.decay_rate is %g, expected at least 0 [TD1104]",
                           config.decay_rate());
  }
  if (!IsNonNegative(config.end_factor())) {
    return InvalidArgument("schedule.end_factor is %g, expected at least 0 [TD1104]",
                           config.end_factor());
  }
  if (!std::isfinite(config.power()) || config.power() <= 0) {
    return InvalidArgument("schedule.power is %g, expected above 0 [TD1104]", config.power());
  }
  return OkStatus();
}

}  // namespace

StatusOr<LrSchedule> LrSchedule::Make(const LearningRateSchedule& config, double learning_rate,
                                      int64_t steps_total) {
  TD_RETURN_IF_ERROR(CheckUnused(config));
  TD_RETURN_IF_ERROR(CheckPiecewise(config));
  TD_RETURN_IF_ERROR(CheckRanges(config, learning_rate));
  LrSchedule out;
  switch (config.kind()) {
    case Config::CONSTANT:
      out.kind_ = Kind::kConstant;
      break;
    case Config::PIECEWISE:
      out.kind_ = Kind::kPiecewise;
      break;
    case Config::EXPONENTIAL:
      out.kind_ = Kind::kExponential;
      break;
    case Config::COSINE:
      out.kind_ = Kind::kCosine;
      break;
    case Config::POLYNOMIAL:
      out.kind_ = Kind::kPolynomial;
      break;
  }
  out.learning_rate_ = learning_rate;
  out.warmup_steps_ = config.warmup_steps();
  out.decay_rate_ = config.decay_rate();
  out.end_ = config.end_factor();
  out.power_ = config.power();
  out.staircase_ = config.staircase();
  out.boundaries_.assign(config.boundary().begin(), config.boundary().end());
  out.values_.assign(config.value().begin(), config.value().end());
  const bool decays = out.kind_ != Kind::kConstant && out.kind_ != Kind::kPiecewise;
  if (decays) {
    out.decay_steps_ =
        config.decay_steps() > 0 ? config.decay_steps() : steps_total - config.warmup_steps();
    if (out.decay_steps_ < 1) {
      return InvalidArgument(
          "schedule.decay_steps is 0 (until the end of the job), but no step is left for the "
          "decay: the job has %d steps, and %d of them are warm-up [TD1104]; hint: reduce "
          "schedule.warmup_steps, or run more steps",
          steps_total, config.warmup_steps());
    }
  }
  return out;
}

double LrSchedule::Factor(int64_t t) const {
  TD_REQUIRE(t >= 0);
  const double part = static_cast<double>(t) / static_cast<double>(decay_steps_);
  const double left = std::max(0.0, 1.0 - part);
  switch (kind_) {
    case Kind::kConstant:
      return 1.0;
    case Kind::kPiecewise: {
      const auto passed = std::upper_bound(boundaries_.begin(), boundaries_.end(), t);
      DCHECK_EQ(values_.size(), boundaries_.size() + 1);
      return values_[static_cast<size_t>(passed - boundaries_.begin())];
    }
    case Kind::kExponential:
      return std::pow(decay_rate_, staircase_ ? std::floor(part) : part);
    case Kind::kCosine:
      return end_ + (1 - end_) * (1 + std::cos(std::numbers::pi * std::min(part, 1.0))) / 2;
    case Kind::kPolynomial:
      return end_ + (1 - end_) * std::pow(left, power_);
  }
  LOG(FATAL) << "schedule kind " << static_cast<int>(kind_);
}

float LrSchedule::At(int64_t step) const {
  CHECK_GE(step, 0);
  if (step < warmup_steps_) {
    const double part = static_cast<double>(step) / static_cast<double>(warmup_steps_);
    return static_cast<float>(learning_rate_ * Factor(0) * part);
  }
  return static_cast<float>(learning_rate_ * Factor(step - warmup_steps_));
}

}  // namespace tandem::trainer
