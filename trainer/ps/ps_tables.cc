#include "trainer/ps/ps_tables.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/tables/table_rules.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/ops/rows/lookup_table.h"
#include "kernels/ops/rows/sparse_rows.h"
#include "trainer/ps/table_file.h"

namespace tandem::trainer {
namespace {

// Returns the reason why the optimizer cannot update the rows of a table; "": the optimizer can
// update them.
StatusOr<std::string> WhyNot(const graph::OptimizerSpec& optimizer, const std::string& table) {
  TD_ASSIGN_OR_RETURN(const graph::UpdateScope reach, graph::ReachOf(optimizer));
  if (reach != graph::UpdateScope::kElement)
    return std::string("needs norms of complete parameters");
  TD_ASSIGN_OR_RETURN(const graph::UntouchedRowPolicy idle, graph::IdleRowsOf(optimizer, table));
  if (idle == graph::UntouchedRowPolicy::kMove) {
    return std::string("also changes rows without a gradient; hint: set optimizer.lazy_mode");
  }
  return std::string();
}

const float* Floats(const TensorMap& state, const std::string& name, int64_t numel) {
  const auto it = state.find(name);
  return it == state.end() || it->second.numel() != numel ? nullptr
                                                          : it->second.span<float>().data();
}

bool AllAre(const float* values, int64_t n, float value) {
  return std::all_of(values, values + n, [value](float v) {
    return std::bit_cast<uint32_t>(v) == std::bit_cast<uint32_t>(value);
  });
}

// Inserts two counts before the values of each row of `set`. `counts` has two numbers per row,
// beginning with row `first`.
void PutInFront(const std::vector<float>& counts, int64_t first, RowSet* set) {
  RowSet counted{set->ids, {}, set->dim + 2, 2};
  counted.values.reserve(set->ids.size() * static_cast<size_t>(counted.dim));
  const float* values = set->values.data();
  for (const int64_t row : set->ids) {
    const float* const of_row = counts.data() + 2 * (row - first);
    counted.values.insert(counted.values.end(), of_row, of_row + 2);
    counted.values.insert(counted.values.end(), values, values + set->dim);
    values += set->dim;
  }
  *set = std::move(counted);
}

}  // namespace

StatusOr<ps::PsOptimizer> ToPsOptimizer(const graph::OptimizerSpec& spec) {
  ps::PsOptimizer optimizer;
  optimizer.type = spec.type;
  for (const auto& [name, value] : spec.attrs) {
    auto& to = optimizer.attrs[name];
    const auto take = [&to]<typename T>(const T& single) {
      constexpr bool kFits = std::is_assignable_v<decltype(to), const T&>;
      if constexpr (kFits) to = single;
      return kFits;
    };
    if (std::visit(take, value)) continue;
    return InvalidArgument("optimizer %s: attribute \"%s\" is a list, expected a single value",
                           spec.type, name);
  }
  return optimizer;
}

StatusOr<std::vector<PsTables::Slot>> PsTables::SlotsOf(const graph::OptimizerSpec& optimizer,
                                                        const std::string& table) {
  graph::Program program;
  const TensorDesc desc{DType::kF32, {2, 2}};
  TD_RETURN_IF_ERROR(program.AddVar({.name = table, .kind = graph::VarKind::kParam, .desc = desc}));
  const std::string grad = graph::GradName(table);
  TD_RETURN_IF_ERROR(program.AddVar({.name = grad, .kind = graph::VarKind::kData, .desc = desc}));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, optimizer, {{table, grad}}));
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      graph::OptimizerSlots(optimizer, table));
  std::vector<Slot> slots;
  for (const std::string& name : names) {
    const graph::Var* var = program.FindVar(name);
    slots.push_back({name, var->desc.shape.numel() == 1, var->init.a});
  }
  return slots;
}

StatusOr<PsTables> PsTables::Take(graph::Program& program, const graph::OptimizerSpec& optimizer,
                                  bool log, std::vector<graph::ParamGrad>& grads) {
  PsTables all;
  std::vector<graph::ParamGrad> taken;
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> distributed,
                      graph::DistributedTables(program));
  TD_RETURN_IF_ERROR(graph::PrefetchTables(program, distributed));
  std::map<std::string, std::string> rules;
  for (const ops::Op& op : program.ops) {
    if (op.type != "prefetch_rows") continue;
    rules[op.inputs[0][0]] = std::get<std::string>(op.attrs.at("table_rules"));
  }
  for (const graph::ParamGrad& pair : graph::TableGradients(program, grads)) {
    TD_ASSIGN_OR_RETURN(const std::string why, WhyNot(optimizer, pair.param));
    const graph::Var* var = program.FindVar(pair.param);
    const bool remote = var->kind == graph::VarKind::kRemote;
    if (remote && !why.empty()) {
      return Unimplemented(
          "the distributed table \"%s\" cannot use optimizer %s on pservers, because this "
          "optimizer %s [TD1203]",
          pair.param, optimizer.type, why);
    }
    if (!why.empty()) {
      LOG_IF(INFO, log) << pair.param << " is not a table on the servers: optimizer "
                        << optimizer.type << " " << why;
      continue;
    }
    TD_ASSIGN_OR_RETURN(std::vector<Slot> slots, SlotsOf(optimizer, pair.param));
    all.tables_.push_back({.name = pair.param,
                           .shape = var->desc.shape,
                           .init = var->init,
                           .slots = std::move(slots),
                           .distributed = remote,
                           .rules = rules[pair.param]});
    taken.push_back(pair);
  }
  for (const std::string& name : distributed) {
    if (all.Find(name).ok()) continue;
    return Unimplemented("the distributed table \"%s\" has no gradient [TD1209]", name);
  }
  std::erase_if(grads, [&](const graph::ParamGrad& pair) {
    return std::any_of(taken.begin(), taken.end(),
                       [&](const graph::ParamGrad& t) { return t.param == pair.param; });
  });
  LOG_IF(INFO, log && !taken.empty())
      << taken.size() << (taken.size() == 1 ? " table" : " tables") << " on the servers"
      << (distributed.empty() ? "" : absl::StrFormat(", %d of them only there", distributed.size()))
      << "; only the rows of a batch are transferred";
  TD_RETURN_IF_ERROR(graph::InsertTables(program, taken));
  return all;
}

StatusOr<PsTables::Table*> PsTables::Find(const std::string& name) {
  for (Table& table : tables_) {
    if (table.name == name) return &table;
  }
  return Internal("variable \"%s\" is not a table", name);
}

Status PsTables::RegisterPull(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(Table* const table, Find(node.in[0].var));
  if (table->distributed) {
    table->prefetch.emplace(node);
    return OkStatus();
  }
  table->weights = static_cast<float*>(node.out[0].data);
  for (size_t i = 1; i < node.in.size(); ++i) {
    table->ids.emplace_back(static_cast<const int64_t*>(node.in[i].data),
                            static_cast<size_t>(node.in[i].desc.shape.numel()));
  }
  return OkStatus();
}

Status PsTables::RegisterPush(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(Table* const table, Find(node.in[0].var));
  table->values = static_cast<const float*>(node.in[1].data);
  table->rows = {static_cast<const int64_t*>(node.in[2].data),
                 static_cast<size_t>(node.in[2].desc.shape.numel())};
  if (node.in.size() > 3) table->click = node.in[3];
  return OkStatus();
}

StatusOr<std::vector<ps::PsRows>> PsTables::Batch() {
  std::vector<ps::PsRows> all;
  for (Table& table : tables_) {
    if (table.prefetch) {
      TD_ASSIGN_OR_RETURN(ps::PsRows rows, table.prefetch->Ask());
      table.batch = rows.ids;
      all.push_back(std::move(rows));
      continue;
    }
    TD_REQUIRE(table.weights != nullptr);  // RegisterPull has set table.weights
    ps::PsRows& rows = all.emplace_back(ps::PsRows{.variable = table.name, .ids = {}, .to = {}});
    for (const auto& ids : table.ids) {
      TD_RETURN_IF_ERROR(Annotate(ops::CheckIds(ids, table.shape[0]), "table " + table.name));
    }
    table.index.Set(table.ids, /*padding=*/-1);
    rows.ids = table.index.rows();
    for (const int64_t id : rows.ids) rows.to.push_back(table.weights + id * table.shape[1]);
  }
  return all;
}

// Skips an id outside the table without an error, because the step that uses the id reports the
// error.
void PsTables::Foresee(const NextBatchHint& next) {
  foreseen_.clear();
  for (Table& table : tables_) {
    std::optional<ps::PsRows> rows;
    if (table.prefetch) rows = table.prefetch->Foresee(next);
    if (!rows) return foreseen_.clear();
    foreseen_.push_back(*std::move(rows));
  }
}

void PsTables::AskAhead(ps::PsClient& client, uint64_t version) {
  if (foreseen_.empty()) return;
  DCHECK_EQ(foreseen_.size(), tables_.size());
  std::vector<int64_t> dims;
  for (const Table& table : tables_) dims.push_back(table.shape[1]);
  ahead_.Ask(client, version, std::exchange(foreseen_, {}), dims);
}

bool PsTables::GiveAhead(uint64_t version, const std::vector<ps::PsRows>& rows,
                         RowPrefetcher::Done done) {
  const bool given = ahead_.Give(version, rows, std::move(done));
  given_ahead_ += given ? 1 : 0;
  return given;
}

StatusOr<RowSet> PsTables::CopyGradient(size_t i) const {
  TD_REQUIRE(i < tables_.size());
  const Table& table = tables_[i];  // push_rows operators have the order of tables_ (InsertTables)
  const int64_t first = table.prefetch ? table.prefetch->first() : 0;
  const auto height =
      table.prefetch ? first + static_cast<int64_t>(table.batch.size()) : table.shape[0];
  TD_ASSIGN_OR_RETURN(const int64_t count, ops::CheckSparseRows(table.rows, height));
  const int64_t dim = table.shape[1];
  RowSet set{{table.rows.begin(), table.rows.begin() + count},
             {table.values, table.values + count * dim},
             dim};
  if (!table.prefetch) return set;
  if (table.click) PutInFront(table.prefetch->Counts(*table.click), first, &set);
  for (int64_t& row : set.ids) {
    CHECK_GE(row, first);
    DCHECK_LT(static_cast<size_t>(row - first), table.batch.size());
    row = table.batch[static_cast<size_t>(row - first)];
  }
  return set;
}

std::vector<ps::PsConstRows> PsTables::View(const std::vector<RowSet>& rows) const {
  TD_REQUIRE(rows.size() <= tables_.size());
  std::vector<ps::PsConstRows> views;
  for (size_t i = 0; i < rows.size(); ++i) {
    views.push_back({tables_[i].name, rows[i].ids, rows[i].values.data()});
  }
  return views;
}

std::string PsTables::Distributed() const {
  for (const Table& t : tables_) {
    if (t.distributed) return t.name;
  }
  return "";
}

Status PsTables::RefuseEventTimeRules() const {
  for (const Table& table : tables_) {
    const StatusOr<TableRules> rules = ParseTableRules(table.rules);
    if (!rules.ok()) return Annotate(rules.status(), "table " + table.name);
    if (!rules->uses_event_time()) continue;
    return InvalidArgument(
        "table \"%s\" has table_rules in event time (%s), but only the records of a stream have "
        "event times [TD1107]; hint: set data.stream, or use shrink_every and ttl, which count "
        "versions",
        table.name, table.rules);
  }
  return OkStatus();
}

std::vector<ps::PsTable> PsTables::Definitions(uint64_t seed) const {
  std::vector<ps::PsTable> all;
  for (const Table& t : tables_) {
    // Init::Kind and ps::PsTable::InitKind have equal numbers.
    all.push_back({t.name, t.shape[0], t.shape[1], static_cast<ps::PsTable::InitKind>(t.init.kind),
                   t.init.a, t.init.b, seed, t.rules});
  }
  return all;
}

StatusOr<std::vector<ps::PsTableRows>> PsTables::Rows(const exec::Scope& scope,
                                                      const TensorMap& state, uint64_t seed) const {
  std::vector<ps::PsTableRows> all;
  for (const Table& t : tables_) {
    if (t.distributed) continue;
    const int64_t dim = t.shape[1];
    ps::PsTableRows rows{
        .variable = t.name, .ids = {}, .content = {}, .slots = {}, .slot_start = {}};
    const float* weights = scope.Find(t.name)->span<float>().data();
    std::vector<float> fresh(static_cast<size_t>(dim));
    for (int64_t id = 0; id < t.shape[0]; ++id) {
      exec::FillInitial(t.name, t.init, t.shape, seed, id * dim, fresh);
      const float* row = weights + id * dim;
      bool same = std::memcmp(row, fresh.data(), fresh.size() * sizeof(float)) == 0;
      std::vector<float> content(row, row + dim);
      for (const Slot& slot : t.slots) {
        if (slot.scalar) continue;
        const float* whole = Floats(state, slot.name, t.shape.numel());
        if (whole == nullptr) {
          content.insert(content.end(), static_cast<size_t>(dim), slot.start);
          continue;
        }
        same = same && AllAre(whole + id * dim, dim, slot.start);
        content.insert(content.end(), whole + id * dim, whole + (id + 1) * dim);
      }
      if (same) continue;
      rows.ids.push_back(static_cast<uint64_t>(id));
      rows.content.insert(rows.content.end(), content.begin(), content.end());
    }
    all.push_back(std::move(rows));
  }
  return all;
}

std::vector<ps::PsSlot> PsTables::Scalars(const TensorMap& state) const {
  std::vector<ps::PsSlot> all;
  for (const Table& t : tables_) {
    for (const Slot& slot : t.slots) {
      const float* value = slot.scalar ? Floats(state, slot.name, 1) : nullptr;
      if (value != nullptr) all.push_back({t.name, slot.name, {*value}});
    }
  }
  return all;
}

const PsTables::Table* PsTables::FindTable(const std::string& name) const {
  for (const Table& table : tables_) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

Status PsTables::CheckFiles(const std::vector<RowFile>& files) const {
  std::vector<std::string> names;
  for (const Table& t : tables_) names.push_back(t.name);
  std::set<std::string> filled;
  for (const RowFile& file : files) {
    if (FindTable(file.table) == nullptr) {
      return InvalidArgument(
          "model.init: table \"%s\" of %s is no table on the pservers, expected one of: %s "
          "[TD2105]",
          file.table, file.path, names.empty() ? "(none)" : absl::StrJoin(names, ", "));
    }
    if (!filled.insert(file.table).second) {
      return InvalidArgument(
          "model.init: table \"%s\" has two files, expected one [TD2105]; hint: join the files",
          file.table);
    }
  }
  return OkStatus();
}

StatusOr<std::vector<ps::PsTableRows>> PsTables::ReadFiles(
    const std::vector<RowFile>& files) const {
  std::vector<ps::PsTableRows> all;
  for (const RowFile& file : files) {
    const Table* const t = FindTable(file.table);
    TD_REQUIRE(t != nullptr);
    const int64_t dim = t->shape[1];
    TD_ASSIGN_OR_RETURN(
        const FileRows read,
        ReadRowFile(file.path, {.name = t->name, .height = t->shape[0], .dim = dim}));
    ps::PsTableRows rows;
    rows.variable = t->name;
    rows.ids.assign(read.ids.begin(), read.ids.end());
    rows.use.resize(rows.ids.size());
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      const float* const row = read.values.data() + i * static_cast<size_t>(dim);
      rows.content.insert(rows.content.end(), row, row + dim);
      for (const Slot& slot : t->slots) {
        if (!slot.scalar) {
          rows.content.insert(rows.content.end(), static_cast<size_t>(dim), slot.start);
        }
      }
    }
    LOG(INFO) << "table " << t->name << " begins with " << rows.ids.size() << " rows of "
              << file.path;
    all.push_back(std::move(rows));
  }
  return all;
}

Status PsTables::Gather(ps::PsClient& client, uint64_t version, exec::Scope& scope) const {
  for (const Table& t : tables_) {
    if (t.distributed) continue;
    TD_ASSIGN_OR_RETURN(const ps::PsTableRows rows, client.PullTable(t.name, false, version));
    const int64_t dim = t.shape[1];
    float* const weights = scope.Find(t.name)->span<float>().data();
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      if (rows.ids[i] >= static_cast<uint64_t>(t.shape[0])) {
        return DataLoss("table %s has %d rows, but the servers have row %d [TD2105]", t.name,
                        t.shape[0], rows.ids[i]);
      }
      std::copy_n(rows.content.data() + static_cast<int64_t>(i) * dim, dim,
                  weights + static_cast<int64_t>(rows.ids[i]) * dim);
    }
  }
  return OkStatus();
}

Status PsTables::Write(ps::PsClient& client, uint64_t version, const std::string& path) const {
  TableFileWriter file;
  TD_RETURN_IF_ERROR(file.Open(path));
  for (const Table& t : tables_) {
    if (!t.distributed) continue;
    const ps::PsTable table{.variable = t.name, .dim = t.shape[1], .rules = t.rules};
    TD_RETURN_IF_ERROR(client.PullTable(
        t.name, version, [&](const ps::PsTableRows& rows) { return file.Add(rows, table); }));
  }
  return file.SyncAndClose();
}

Status PsTables::AddState(ps::PsClient& client, Device& device, TensorMap& state) const {
  for (const Table& t : tables_) {
    if (t.distributed) continue;
    TD_ASSIGN_OR_RETURN(const ps::PsTableRows rows, client.PullTable(t.name, true));
    DCHECK_EQ(rows.slot_start.size(), rows.slots.size());
    const int64_t dim = t.shape[1];
    const auto width = static_cast<int64_t>(1 + rows.slots.size()) * dim;
    for (size_t s = 0; s < rows.slots.size(); ++s) {
      TD_ASSIGN_OR_RETURN(Tensor whole, Tensor::Make({DType::kF32, t.shape}, device));
      const auto values = whole.span<float>();
      std::fill(values.begin(), values.end(), rows.slot_start[s]);
      for (size_t i = 0; i < rows.ids.size(); ++i) {
        // Skips rows outside the table, because Gather reports these rows as an error.
        if (rows.ids[i] >= static_cast<uint64_t>(t.shape[0])) continue;
        std::copy_n(rows.content.data() + static_cast<int64_t>(i) * width +
                        static_cast<int64_t>(1 + s) * dim,
                    dim, values.data() + static_cast<int64_t>(rows.ids[i]) * dim);
      }
      state[rows.slots[s]] = std::move(whole);
    }
  }
  return OkStatus();
}

void PsTables::Count(ps::PsClient& client) {
  if (empty()) return;
  const auto servers = client.ServerInfo();
  if (!servers.ok()) {
    LOG(WARNING) << "cannot count the rows of the tables: " << ToString(servers.status());
    return;
  }
  if (servers->empty()) return;
  counts_.rows = counts_.rows_extended = counts_.row_bytes = 0;
  for (const ps::PsServerInfo& server : *servers) {
    *counts_.rows += static_cast<double>(server.rows);
    *counts_.rows_extended += static_cast<double>(server.extended);
    *counts_.row_bytes += static_cast<double>(server.row_bytes);
  }
}

void PsTables::AddCounts(PsCounts* counts) const {
  counts->rows = counts_.rows;
  counts->rows_extended = counts_.rows_extended;
  counts->row_bytes = counts_.row_bytes;
  counts->rows_ahead = static_cast<double>(given_ahead_);
}

}  // namespace tandem::trainer
