// Tables on pservers: their rows come before a step and their gradients go behind it.
#include <algorithm>

#include "kernels/graph/passes/distribute.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem {
namespace {

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsDistributed(const Op& op) {
  const auto it = op.attrs.find("is_distributed");
  return it != op.attrs.end() && std::get<bool>(it->second);
}

// What `table` is looked up with, each variable once. Empty when it is used otherwise, or when ids
// are no data of the batch.
std::vector<std::string> IdsOf(const Program& program, const std::string& table) {
  std::vector<std::string> ids;
  for (const Op& op : program.ops) {
    bool reads = false;
    for (const auto& slot : op.inputs) reads |= Holds(slot, table);
    // The gradient asks for the table's shape alone.
    if (!reads || op.type == "lookup_table_sparse_grad") continue;
    if (op.type == "prefetch_rows") return op.inputs[1];
    if (op.type != "lookup_table" || Holds(op.inputs[0], table)) return {};
    const std::string& id = op.inputs[0].front();
    if (program.FindVar(id)->kind != VarKind::kData) return {};
    if (!Holds(ids, id)) ids.push_back(id);
  }
  return ids;
}

// Lookups of `table` and their gradients, by index.
std::vector<size_t> LookupsOf(const Program& program, const std::string& table) {
  std::vector<size_t> lookups;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const bool lookup = op.type == "lookup_table" || op.type == "lookup_table_sparse_grad";
    if (lookup && op.inputs[1].front() == table) lookups.push_back(i);
  }
  return lookups;
}

int64_t PaddingOf(const Op& op) {
  const auto it = op.attrs.find("padding_idx");
  return it == op.attrs.end() ? -1 : std::get<int64_t>(it->second);
}

std::string RulesOf(const Op& op) {
  const auto it = op.attrs.find("table_rules");
  return it == op.attrs.end() ? "" : std::get<std::string>(it->second);
}

Status PrefetchTable(Program& program, size_t at, const std::string& table) {
  const std::vector<std::string> ids = IdsOf(program, table);
  CHECK(!ids.empty()) << table;
  program.FindVar(table)->kind = VarKind::kRemote;
  const std::string rows = program.FreshName(table + "@PREFETCH");
  std::vector<std::string> index;
  for (size_t i = 0; i < ids.size(); ++i) {
    index.push_back(program.FreshName(table + "@INDEX" + std::to_string(i)));
  }
  const std::vector<size_t> lookups = LookupsOf(program, table);
  const int64_t padding = PaddingOf(program.ops[lookups.front()]);
  const std::string rules = RulesOf(program.ops[lookups.front()]);
  for (const size_t i : lookups) {
    Op& op = program.ops[i];
    const auto id = std::find(ids.begin(), ids.end(), op.inputs[0].front()) - ids.begin();
    op.inputs[0] = {index[static_cast<size_t>(id)]};
    op.inputs[1] = {rows};
    op.attrs["is_distributed"] = false;
    op.attrs.erase("table_rules");
    op.attrs["padding_idx"] = int64_t{padding < 0 ? -1 : 0};
  }
  return InsertOp(program, at,
                  {.type = "prefetch_rows",
                   .inputs = {{table}, ids},
                   .outputs = {{rows}, index},
                   .attrs = {{"padding_idx", padding}, {"table_rules", rules}},
                   .role = OpRole::kComm});
}

}  // namespace

std::vector<ParamGrad> TableGradients(const Program& program, const std::vector<ParamGrad>& grads) {
  std::vector<ParamGrad> tables;
  for (const ParamGrad& pair : grads) {
    if (!pair.rows.empty() && !IdsOf(program, pair.param).empty()) tables.push_back(pair);
  }
  return tables;
}

Status InsertTables(Program& program, const std::vector<ParamGrad>& tables) {
  size_t at = 0;
  for (const ParamGrad& pair : tables) {
    if (program.FindVar(pair.param)->kind == VarKind::kRemote) continue;
    const std::vector<std::string> ids = IdsOf(program, pair.param);
    CHECK(!ids.empty()) << pair.param;
    TD_RETURN_IF_ERROR(InsertOp(program, at++,
                                {.type = "pull_rows",
                                 .inputs = {{pair.param}, ids},
                                 .outputs = {{pair.param}},
                                 .role = OpRole::kComm}));
  }
  for (const ParamGrad& pair : tables) {
    TD_RETURN_IF_ERROR(AppendOp(program, {.type = "push_rows",
                                          .inputs = {{pair.param}, {pair.grad}, {pair.rows}},
                                          .outputs = {},
                                          .role = OpRole::kComm}));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> DistributedTables(const Program& program) {
  std::vector<std::string> tables;
  for (const Op& op : program.ops) {
    if (op.type != "lookup_table" || !IsDistributed(op)) continue;
    const std::string& table = op.inputs[1].front();
    if (!Holds(tables, table)) tables.push_back(table);
  }
  for (const std::string& table : tables) {
    if (program.FindVar(table)->kind != VarKind::kParam || IdsOf(program, table).empty()) {
      return InvalidArgument(
          "\"%s\" is_distributed: it must be a parameter that is looked up by ids of the batch and "
          "used in no other way",
          table);
    }
    const std::vector<size_t> lookups = LookupsOf(program, table);
    for (const size_t i : lookups) {
      const Op &op = program.ops[i], &first = program.ops[lookups.front()];
      if (IsDistributed(op) && PaddingOf(op) == PaddingOf(first) && RulesOf(op) == RulesOf(first)) {
        continue;
      }
      return InvalidArgument(
          "\"%s\": its lookups differ in is_distributed, padding_idx or table_rules", table);
    }
  }
  return tables;
}

Status PrefetchTables(Program& program, const std::vector<std::string>& tables) {
  if (tables.empty()) return OkStatus();
  for (size_t i = 0; i < tables.size(); ++i) {
    TD_RETURN_IF_ERROR(PrefetchTable(program, i, tables[i]));
  }
  // Shapes of gradients may have changed with the number of rows.
  int64_t batch = 1;
  for (const Var& var : program.vars()) {
    if (var.batch_leading) batch = var.desc.shape[0];
  }
  return BindBatch(program, batch);
}

}  // namespace tandem
