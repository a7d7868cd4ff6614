// Finds knobs that are not built yet, have no meaning in the job's mode, or contradict other knobs.
#include "common/strategy/validate.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/strategy/field_value.h"
#include "common/strategy/knob_index.h"
#include "proto/knob.pb.h"
#include "proto/strategy.pb.h"

namespace tandem::strategy {

namespace {

namespace gpb = google::protobuf;

class Validator {
 public:
  Validator(const DistributedStrategy& strategy, const StrategyContext& context,
            const Origins& origins, std::string_view path, Diagnostics* diagnostics)
      : strategy_(strategy),
        context_(context),
        origins_(origins),
        prefix_(path.empty() ? "" : std::string(path) + "."),
        diagnostics_(diagnostics) {}

  void Run() {
    const FieldIndex index(*strategy_.GetDescriptor());
    for (const FieldPlace& place : index.places()) {
      if (place.holds_fields()) continue;
      CheckKnob(place);
      NoteWithoutSwitch(place);
    }
    CheckModeField();
    CheckHierarchical();
    CheckDeterministic();
    CheckRegime();
    CheckLocalSteps();
    CheckFragments();
    NoteIdleKnobs();
    CheckAmpLists();
    CheckExclusions();
    CheckSharding();
  }

 private:
  // Returns the mode and its origin as text. Example: "pserver (job.pbtxt:2:1)".
  std::string ModeText() const {
    const std::string where = " (" + context_.mode_origin.ToString() + ")";
    return absl::StrCat("mode=", std::string(TrainModeName(context_.mode)), where);
  }

  SourcePlace PlaceOf(const std::string& path) const {
    const Origin origin = origins_.Of(prefix_ + path);
    SourcePlace place = origin.place;
    if (origin.kind == OriginKind::kDefault) place.file = "strategy";
    return place;
  }
  // Returns the knob and its origin as text. Example: "nccl_comm_num (job.pbtxt:4:3)".
  std::string Named(const std::string& path) const {
    const Origin origin = origins_.Of(prefix_ + path);
    return absl::StrCat(path, " (", origin.ToString(), ")");
  }
  void Error(const std::string& path, const std::string& message, const std::string& hint) {
    diagnostics_->Error(PlaceOf(path), message, hint);
  }

  void CheckKnob(const FieldPlace& place);
  void NoteWithoutSwitch(const FieldPlace& place);
  void CheckModeField();
  void CheckHierarchical();
  void CheckDeterministic();
  void CheckRegime();
  void CheckLocalSteps();
  void CheckFragments();
  void NoteIdleKnobs();
  void CheckAmpLists();
  struct Exclusion {
    bool both;
    const char* first;
    const char* second;
    const char* why;
  };
  void CheckExclusions();
  void CheckSharding();
  void CheckShardingGroups();
  void CheckPipeline();
  void Refuse(const Exclusion& exclusion);

  const DistributedStrategy& strategy_;
  const StrategyContext& context_;
  const Origins& origins_;
  const std::string prefix_;
  Diagnostics* const diagnostics_;
};

// Returns the field's value as text if it differs from the default, otherwise "".
std::string ChangedValue(const FieldPlace& place, const gpb::Message& root) {
  const gpb::Message* holder = &root;
  for (size_t i = 0; i + 1 < place.steps.size(); ++i) {
    if (!holder->GetReflection()->HasField(*holder, place.steps[i])) return "";
    holder = &holder->GetReflection()->GetMessage(*holder, place.steps[i]);
  }
  const gpb::FieldDescriptor& field = place.field();
  const gpb::Reflection& reflection = *holder->GetReflection();
  if (field.is_repeated()) {
    const int size = reflection.FieldSize(*holder, &field);
    if (size == 0) return "";
    return absl::StrCat("[", FieldText(*holder, field, 0), size > 1 ? ", ...]" : "]");
  }
  if (!reflection.HasField(*holder, &field)) return "";
  const std::string text = FieldText(*holder, field);
  if (field.has_default_value() && text == DefaultText(field)) return "";
  return text.empty() ? "\"\"" : text;
}

void Validator::CheckKnob(const FieldPlace& place) {
  const std::string value = ChangedValue(place, strategy_);
  if (value.empty()) return;
  const Knob& options = place.field().options().GetExtension(knob);
  const std::string setting = absl::StrCat(place.path, ": ", value);
  const std::string usual = DefaultText(place.field());
  const std::string keep = usual.empty() ? "remove it" : "remove it, its default is " + usual;
  if (!options.built()) return Error(place.path, setting + " is not implemented [TD1109]", keep);
  const auto& values = options.built_value();
  if (!values.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
    return Error(place.path, setting + " is not implemented [TD1109]",
                 "use one of " + absl::StrJoin(values, ", "));
  }
  const auto mode = static_cast<int>(context_.mode);
  const auto& modes = options.mode();
  if (modes.empty() || std::find(modes.begin(), modes.end(), mode) != modes.end()) return;
  const std::string message =
      absl::StrCat(setting, " has no effect with ", ModeText(), " [TD1107]");
  if (options.tuning()) return diagnostics_->Note(PlaceOf(place.path), message);
  std::vector<std::string> names;
  for (int m : modes) names.emplace_back(TrainModeName(static_cast<TrainMode>(m)));
  Error(place.path, message,
        absl::StrCat("remove it, or choose mode ", absl::StrJoin(names, " or ")));
}

// A knob of the message NAME_configs has no effect if the knob NAME is off. Adds a note if the knob
// at `place` is such a knob and its value was changed. The knobs of a_sync_configs are exempt,
// because they have an effect even if a_sync is off.
void Validator::NoteWithoutSwitch(const FieldPlace& place) {
  const std::string_view group = place.steps.front()->name();
  constexpr std::string_view kEnd = "_configs";
  if (place.steps.size() != 2 || !group.ends_with(kEnd) || group == "a_sync_configs") return;
  const std::string name(group.substr(0, group.size() - kEnd.size()));
  const gpb::FieldDescriptor* on = strategy_.GetDescriptor()->FindFieldByName(name);
  if (on == nullptr || strategy_.GetReflection()->GetBool(strategy_, on)) return;
  if (ChangedValue(place, strategy_).empty()) return;
  diagnostics_->Note(PlaceOf(place.path),
                     absl::StrCat(place.field().name(), " has no effect without ", name));
}

void Validator::CheckModeField() {
  if (!strategy_.has_mode()) return;
  if (static_cast<int>(strategy_.mode()) == static_cast<int>(context_.mode)) return;
  Error("mode",
        absl::StrCat("mode: ", Knob::Mode_Name(strategy_.mode()), " of the strategy contradicts ",
                     ModeText(), " [TD1108]"),
        "remove mode from the strategy, or change one of the two");
}

void Validator::CheckHierarchical() {
  const std::string size_name = "hierarchical_allreduce_inter_nranks";
  const int size = strategy_.hierarchical_allreduce_inter_nranks();
  if (!strategy_.use_hierarchical_allreduce()) {
    if (size == 1) return;
    return Error(size_name,
                 size_name + " has no effect without use_hierarchical_allreduce: true [TD1107]",
                 "add use_hierarchical_allreduce: true, or remove it");
  }
  if (size <= 1) {
    return Error("use_hierarchical_allreduce",
                 absl::StrCat("use_hierarchical_allreduce needs a value of ", size_name,
                              " above 1, but the value is ", size, " [TD1104]"),
                 "set it to the number of ranks on one host");
  }
  if (context_.ranks > 0 && context_.ranks % size != 0) {
    Error(size_name,
          absl::StrCat(size_name, ": ", size, " is not a divisor of the number of trainers, ",
                       context_.ranks, " [TD1104]"),
          "use groups of equal size");
  }
}

void Validator::CheckDeterministic() {
  const int shards = strategy_.logical_shards();
  if (!strategy_.deterministic()) {
    if (strategy_.has_logical_shards()) {
      diagnostics_->Note(PlaceOf("logical_shards"),
                         "logical_shards has no effect without deterministic: true");
    }
    return;
  }
  if ((shards & (shards - 1)) != 0) {
    return Error("logical_shards",
                 absl::StrCat("logical_shards: ", shards, " is not a power of two [TD1104]"),
                 "use 2, 4, 8, ..., because gradients are added as a binary tree");
  }
  if (context_.ranks > 0 && shards % context_.ranks != 0) {
    Error(
        "deterministic",
        absl::StrCat("deterministic: ", shards, " logical_shards cannot be divided equally among ",
                     context_.ranks, " ranks and places [TD1104]"),
        "use 1, 2, 4, ... ranks and places; a different number of shards changes the results");
  }
  if (strategy_.use_hierarchical_allreduce()) {
    diagnostics_->Note(PlaceOf("use_hierarchical_allreduce"),
                       "use_hierarchical_allreduce has no effect with deterministic, whose tree "
                       "starts with the nearest ranks");
  }
}

void Validator::CheckRegime() {
  const A_SyncConfigs& configs = strategy_.a_sync_configs();
  if (configs.k_steps() > 0 && !strategy_.a_sync()) {
    Error("a_sync_configs.k_steps",
          absl::StrCat("a_sync_configs.k_steps: ", configs.k_steps(), " (geo) contradicts ",
                       "a_sync: false (", origins_.Of(prefix_ + "a_sync").ToString(), ") [TD1108]"),
          "add a_sync: true");
  }
  if (configs.half_async() && !strategy_.a_sync()) {
    Error("a_sync_configs.half_async",
          absl::StrCat("a_sync_configs.half_async: true contradicts a_sync: false (",
                       origins_.Of(prefix_ + "a_sync").ToString(), ") [TD1108]"),
          "add a_sync: true");
  }
  if (configs.max_staleness() >= 0 && !strategy_.a_sync()) {
    Error("a_sync_configs.max_staleness",
          absl::StrCat("a_sync_configs.max_staleness: ", configs.max_staleness(),
                       " contradicts a_sync: false (", origins_.Of(prefix_ + "a_sync").ToString(),
                       ") [TD1108]"),
          "add a_sync: true");
  }
  if (configs.enable_dc_asgd() && !strategy_.a_sync()) {
    Error("a_sync_configs.enable_dc_asgd",
          absl::StrCat("a_sync_configs.enable_dc_asgd: true contradicts a_sync: false (",
                       origins_.Of(prefix_ + "a_sync").ToString(),
                       "), because without a_sync no gradient is stale [TD1108]"),
          "add a_sync: true");
  }
  if (configs.enable_dc_asgd() && configs.k_steps() > 0) {
    Error("a_sync_configs.enable_dc_asgd",
          absl::StrCat("a_sync_configs.enable_dc_asgd and ", Named("a_sync_configs.k_steps"),
                       " (geo) exclude each other: geo sends parameter differences instead of "
                       "gradients [TD1108]"),
          "keep one of them");
  }
  if (configs.k_steps() > 0 && (configs.half_async() || configs.max_staleness() >= 0)) {
    Error("a_sync_configs.k_steps",
          absl::StrCat("a_sync_configs.k_steps: ", configs.k_steps(), " (geo) and ",
                       Named(configs.half_async() ? "a_sync_configs.half_async"
                                                  : "a_sync_configs.max_staleness"),
                       " exclude each other [TD1108]"),
          "keep one of them");
  }
}

// Checks localsgd in mode pserver: the pushes of a trainer have no common step.
void Validator::CheckLocalSteps() {
  const A_SyncConfigs& async = strategy_.a_sync_configs();
  if (!strategy_.localsgd() || context_.mode != TrainMode::kPserver) return;
  if (!strategy_.a_sync()) {
    Error("localsgd",
          absl::StrCat("localsgd: true with ", ModeText(), " contradicts a_sync: false (",
                       origins_.Of(prefix_ + "a_sync").ToString(), ") [TD1108]"),
          "add a_sync: true");
  }
  const char* const why = "trainers with localsgd send pseudo-gradients, and wait for no other one";
  const Exclusion exclusions[] = {
      {async.k_steps() > 0, "localsgd", "a_sync_configs.k_steps",
       "both determine the steps between two exchanges"},
      {async.half_async(), "localsgd", "a_sync_configs.half_async", why},
      {async.max_staleness() >= 0, "localsgd", "a_sync_configs.max_staleness", why},
      {async.enable_dc_asgd(), "localsgd", "a_sync_configs.enable_dc_asgd", why},
      {strategy_.execution_strategy().use_thread_barrier(), "localsgd",
       "execution_strategy.use_thread_barrier", "every place updates separately"},
  };
  for (const Exclusion& e : exclusions) Refuse(e);
}

// Checks the outer optimizer and the fragments of localsgd. With adaptive_localsgd these knobs are
// an error, although localsgd is off, because the user expects an effect.
void Validator::CheckFragments() {
  const LocalSgdConfigs& c = strategy_.localsgd_configs();
  const std::string group = "localsgd_configs.";
  if (c.outer_optimizer() != "none" && c.outer_optimizer() != "nesterov") {
    Error(group + "outer_optimizer",
          absl::StrCat("localsgd_configs.outer_optimizer: \"", c.outer_optimizer(),
                       "\" is unknown [TD1104]"),
          "use none or nesterov");
  }
  const std::pair<const char*, int> limits[] = {{"fragments", c.fragments() - 1},
                                                {"delay", c.delay()}};
  for (const auto& [name, value] : limits) {
    if (!strategy_.localsgd() || value < std::max(c.k_steps(), 1)) continue;
    const bool delay = name == std::string_view("delay");
    Error(group + name,
          absl::StrCat("localsgd_configs.", name, ": ", delay ? c.delay() : c.fragments(),
                       delay ? " is not below " : " is more than ",
                       Named("localsgd_configs.k_steps"), ", which is ", c.k_steps(), " [TD1104]"),
          delay ? "the ranks apply an average before they begin the next one: lower delay"
                : "each fragment needs its own step: lower fragments");
  }
  const bool sets =
      c.outer_optimizer() != "none" || c.fragments() > 1 || c.delay() > 0 || c.merge_factor() > 0;
  if (sets && strategy_.adaptive_localsgd()) {
    const char* name = c.outer_optimizer() != "none" ? "localsgd_configs.outer_optimizer"
                       : c.fragments() > 1           ? "localsgd_configs.fragments"
                       : c.delay() > 0               ? "localsgd_configs.delay"
                                                     : "localsgd_configs.merge_factor";
    Refuse({true, name, "adaptive_localsgd", "the steps between two averages must be constant"});
  }
  if (strategy_.localsgd() && c.delay() > 0 && strategy_.nccl_comm_num() > 1) {
    Refuse({true, "localsgd_configs.delay", "nccl_comm_num",
            "the averages of several steps run in one order, on one communicator"});
  }
}

// Adds notes for knobs that are set, but have no effect because of the values of other knobs.
void Validator::NoteIdleKnobs() {
  const RuntimeFlags& flags = strategy_.runtime_flags();
  const BuildStrategy& build = strategy_.build_strategy();
  const ExecutionStrategy& execution = strategy_.execution_strategy();
  const LocalSgdConfigs& outer = strategy_.localsgd_configs();
  const bool reduce = build.reduce_strategy() == BuildStrategy::Reduce;
  const bool meet = execution.use_thread_barrier() && context_.mode == TrainMode::kPserver;
  struct Idle {
    bool idle;
    const char* path;
    const char* message;
  };
  const Idle rows[] = {
      {flags.has_min_block_size() && !flags.slice_var_up(), "runtime_flags.min_block_size",
       "min_block_size has no effect with slice_var_up: false"},
      {flags.has_rocksdb_path() && flags.table_memory_mb() == 0, "runtime_flags.rocksdb_path",
       "rocksdb_path has no effect without table_memory_mb, because all rows are in memory"},
      {flags.has_row_cache_versions() && flags.row_cache_mb() == 0,
       "runtime_flags.row_cache_versions",
       "row_cache_versions has no effect without row_cache_mb, because no rows are cached"},
      {strategy_.a_sync() && flags.row_cache_mb() > 0 && flags.row_cache_versions() == 0,
       "runtime_flags.row_cache_mb",
       "row_cache_mb has no effect with a_sync and row_cache_versions: 0, because no cached row "
       "counts as current"},
      {strategy_.a_sync_configs().has_dc_asgd_lambda() &&
           !strategy_.a_sync_configs().enable_dc_asgd(),
       "a_sync_configs.dc_asgd_lambda", "dc_asgd_lambda has no effect without enable_dc_asgd"},
      {outer.has_outer_learning_rate() && outer.outer_optimizer() == "none",
       "localsgd_configs.outer_learning_rate",
       "outer_learning_rate has no effect without outer_optimizer"},
      {outer.has_outer_momentum() && outer.outer_optimizer() == "none",
       "localsgd_configs.outer_momentum", "outer_momentum has no effect without outer_optimizer"},
      {build.fuse_broadcast_ops() && !reduce, "build_strategy.fuse_broadcast_ops",
       "fuse_broadcast_ops has no effect without reduce_strategy: Reduce"},
      {reduce && context_.ranks == 1, "build_strategy.reduce_strategy",
       "reduce_strategy: Reduce has no effect with one rank"},
      {meet && !strategy_.a_sync(), "execution_strategy.use_thread_barrier",
       "use_thread_barrier has no effect without a_sync, because all places already wait for each "
       "other"},
      {meet && strategy_.a_sync() && execution.cpu_num() == 1,
       "execution_strategy.use_thread_barrier",
       "use_thread_barrier has no effect with one place (cpu_num: 1)"},
  };
  for (const Idle& row : rows) {
    if (row.idle) diagnostics_->Note(PlaceOf(row.path), row.message);
  }
}

void Validator::CheckAmpLists() {
  const AmpConfigs& configs = strategy_.amp_configs();
  const auto& black = configs.custom_black_list();
  for (const std::string& op : configs.custom_white_list()) {
    if (std::find(black.begin(), black.end(), op) == black.end()) continue;
    Error("amp_configs.custom_white_list",
          absl::StrCat("\"", op, "\" is in custom_white_list and in ",
                       Named("amp_configs.custom_black_list"), " [TD1108]"),
          "keep it in one of them");
  }
}

void Validator::CheckExclusions() {
  const DistributedStrategy& s = strategy_;
  const bool by_owner = s.build_strategy().reduce_strategy() == BuildStrategy::Reduce;
  const bool alone = s.localsgd() || s.adaptive_localsgd();
  const char* local = s.localsgd() ? "localsgd" : "adaptive_localsgd";
  const Exclusion exclusions[] = {
      {s.dgc() && s.amp(), "dgc", "amp", "gradients are compressed only in 32 bit"},
      {s.localsgd() && s.adaptive_localsgd(), "localsgd", "adaptive_localsgd",
       "both determine the steps between two averages"},
      {alone && s.gradient_merge(), local, "gradient_merge", "localsgd sends no gradients"},
      {alone && s.fp16_allreduce(), local, "fp16_allreduce", "localsgd sends no gradients"},
      {alone && s.batch_merge_repeats() > 1, local, "batch_merge_repeats",
       "steps are counted per part of a batch"},
      {by_owner && alone, "build_strategy.reduce_strategy", local,
       "localsgd sends no gradients, but Reduce needs them"},
      {s.sync_batch_norm() && s.amp(), "sync_batch_norm", "amp",
       "moments of several ranks are combined in 32 bit, but with amp images have 16 bit"},
      {s.deterministic() && s.a_sync(), "deterministic", "a_sync",
       "the order of updates is not determined"},
      {s.deterministic() && s.auto_(), "deterministic", "auto",
       "the fastest settings differ between machines, and results differ between settings"},
      {s.deterministic() && alone, "deterministic", local,
       "the results of separate ranks depend on the number of ranks"},
      {s.deterministic() && s.fp16_allreduce(), "deterministic", "fp16_allreduce",
       "the rounding of sent gradients depends on the number of ranks"},
      {s.deterministic() && s.gradient_merge(), "deterministic", "gradient_merge",
       "gradients would be summed over steps before they are summed over ranks"},
      {s.deterministic() && s.batch_merge_repeats() > 1, "deterministic", "batch_merge_repeats",
       "logical_shards determines the number of parts"},
      {s.deterministic() && s.sync_batch_norm(), "deterministic", "sync_batch_norm",
       "moments are computed per logical shard"},
      {s.deterministic() && s.allreduce_choice() == DistributedStrategy::ByModel, "deterministic",
       "allreduce_choice",
       "the fastest algorithm, and with it the order of sums, differs between starts"},
      {s.deterministic() && s.cudnn_exhaustive_search(), "deterministic", "cudnn_exhaustive_search",
       "the measured algorithm may differ between ranks"},
      {s.execution_strategy().use_thread_barrier() && s.a_sync_configs().k_steps() > 0,
       "execution_strategy.use_thread_barrier", "a_sync_configs.k_steps",
       "with geo every place updates separately"},
      {s.lars() && s.lamb(), "lars", "lamb", "both replace the optimizer"},
      {s.dgc() && s.gradient_merge(), "dgc", "gradient_merge",
       "both sum gradients before they are sent"},
      {s.dgc() && s.batch_merge_repeats() > 1, "dgc", "batch_merge_repeats",
       "both sum gradients before they are sent"},
      {s.dgc() && by_owner, "dgc", "build_strategy.reduce_strategy",
       "compressed gradients are sent to all ranks"},
      {s.dgc() && s.lars(), "dgc", "lars", "norms of compressed gradients have no meaning"},
      {s.deterministic() && s.dgc(), "deterministic", "dgc",
       "the sent elements depend on the number of ranks"},
      {s.dgc() && alone, "dgc", local, "localsgd sends no gradients"},
  };
  for (const Exclusion& e : exclusions) Refuse(e);
  CheckPipeline();
}

void Validator::Refuse(const Exclusion& e) {
  if (!e.both) return;
  Error(
      e.first,
      absl::StrCat(e.first, " and ", Named(e.second), " exclude each other: ", e.why, " [TD1108]"),
      "keep one of them");
}

void Validator::CheckPipeline() {
  const DistributedStrategy& s = strategy_;
  if (!s.pipeline()) return;
  const bool by_owner = s.build_strategy().reduce_strategy() == BuildStrategy::Reduce;
  const Exclusion exclusions[] = {
      {s.amp(), "pipeline", "amp", "no rank knows whether all gradients are finite"},
      {s.dgc(), "pipeline", "dgc", "compressed gradients are sent to all ranks"},
      {s.localsgd(), "pipeline", "localsgd", "ranks have different parameters"},
      {s.adaptive_localsgd(), "pipeline", "adaptive_localsgd", "ranks have different parameters"},
      {by_owner, "pipeline", "build_strategy.reduce_strategy",
       "each section stores its parameters, so Reduce cannot assign them to ranks"},
      {s.gradient_merge(), "pipeline", "gradient_merge",
       "gradients are already summed over the micro batches"},
      {s.batch_merge_repeats() > 1, "pipeline", "batch_merge_repeats",
       "micro_batch already determines the parts of a batch"},
      {s.deterministic(), "pipeline", "deterministic",
       "micro_batch determines the parts of a batch, not the number of ranks"},
      {s.sync_batch_norm(), "pipeline", "sync_batch_norm", "moments are computed per micro batch"},
      {s.auto_(), "pipeline", "auto", "each section would be measured separately"},
      {s.nccl_comm_num() > 1, "pipeline", "nccl_comm_num",
       "messages and sums already use separate communicators"},
      {s.use_hierarchical_allreduce(), "pipeline", "use_hierarchical_allreduce",
       "the groups of ranks are the replicas of the sections"},
      {s.allreduce_choice() == DistributedStrategy::ByModel, "pipeline", "allreduce_choice",
       "algorithms are measured among all ranks"},
      {s.execution_strategy().cpu_num() > 1, "pipeline", "execution_strategy.cpu_num",
       "each section runs on one rank"},
  };
  for (const Exclusion& e : exclusions) Refuse(e);
}

// Checks the group size of sharding. With hybrid_dp the ranks must form several equal groups.
void Validator::CheckShardingGroups() {
  const ShardingConfigs& configs = strategy_.sharding_configs();
  const std::string name = "sharding_configs.sharding_group_size";
  const int size = configs.sharding_group_size(), ranks = context_.ranks;
  if (!configs.hybrid_dp()) {
    if (configs.has_sharding_group_size() && size != ranks) {
      diagnostics_->Note(PlaceOf(name),
                         "sharding_group_size has no effect without hybrid_dp: all ranks share one "
                         "copy of the parameters");
    }
    return;
  }
  if (ranks == 0 || (size > 1 && size < ranks && ranks % size == 0)) return;
  std::vector<std::string> fit;
  for (int g = 2; g < ranks; ++g) {
    if (ranks % g == 0) fit.push_back(absl::StrCat(g, " (", ranks / g, " groups)"));
  }
  Error(name,
        absl::StrCat("hybrid_dp with groups of ", size,
                     " ranks (sharding_group_size) does not fit ", ranks, " trainers [TD1104]"),
        fit.empty() ? absl::StrCat("remove hybrid_dp, or start 4, 6, 8, ... trainers, because ",
                                   ranks, " trainers cannot form groups")
                    : absl::StrCat("set sharding_group_size: ", absl::StrJoin(fit, ", ")));
}

void Validator::CheckSharding() {
  const DistributedStrategy& s = strategy_;
  if (!s.sharding()) return;
  if (context_.ranks == 1) {
    diagnostics_->Note(PlaceOf("sharding"), "sharding has no effect with one rank");
  }
  CheckShardingGroups();
  struct Exclusion {
    bool given;
    const char* other;
    const char* why;
  };
  const Exclusion exclusions[] = {
      {s.build_strategy().reduce_strategy() == BuildStrategy::Reduce,
       "build_strategy.reduce_strategy",
       "both determine the rank that updates a parameter, and with sharding no other rank stores "
       "it"},
      {s.localsgd(), "localsgd", "ranks that update separately need all parameters permanently"},
      {s.adaptive_localsgd(), "adaptive_localsgd",
       "ranks that update separately need all parameters permanently"},
      {s.dgc(), "dgc", "compressed gradients are sent to all ranks"},
      {s.pipeline(), "pipeline", "both assign parameters to ranks"},
      {s.execution_strategy().cpu_num() > 1, "execution_strategy.cpu_num",
       "the places of one process share memory, which would then store all parts"},
  };
  for (const Exclusion& e : exclusions) {
    if (!e.given) continue;
    Error(
        "sharding",
        absl::StrCat("sharding and ", Named(e.other), " exclude each other: ", e.why, " [TD1108]"),
        "keep one of them");
  }
}

}  // namespace

std::string_view TrainModeName(TrainMode mode) {
  switch (mode) {
    case TrainMode::kLocal:
      return "local";
    case TrainMode::kPserver:
      return "pserver";
    case TrainMode::kCollective:
      return "collective";
    case TrainMode::kHybrid:
      return "hybrid";
  }
  return "unknown";
}

void ValidateStrategy(const DistributedStrategy& strategy, const StrategyContext& context,
                      const Origins& origins, std::string_view path, Diagnostics* diagnostics) {
  Validator(strategy, context, origins, path, diagnostics).Run();
}

}  // namespace tandem::strategy
