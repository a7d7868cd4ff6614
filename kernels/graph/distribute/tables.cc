// Inserts the operators of tables on pservers: they pull rows before a step and push gradients
// after the step.
#include <algorithm>

#include "common/base/require.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsDistributed(const ops::Op& op) {
  const auto it = op.attrs.find("is_distributed");
  return it != op.attrs.end() && std::get<bool>(it->second);
}

// Returns the id variables by which `table` is looked up, each once. Empty: the table has another
// use, or its ids are not data of the batch.
std::vector<std::string> IdsOf(const Program& program, const std::string& table) {
  std::vector<std::string> ids;
  for (const ops::Op& op : program.ops) {
    bool reads = false;
    for (const auto& slot : op.inputs) reads |= Holds(slot, table);
    // The operator lookup_table_sparse_grad uses only the shape of the table.
    if (!reads || op.type == "lookup_table_sparse_grad") continue;
    if (op.type == "prefetch_rows") return op.inputs[1];
    if (op.type != "lookup_table" || Holds(op.inputs[0], table)) return {};
    const std::string& id = op.inputs[0].front();
    if (program.FindVar(id)->kind != VarKind::kData) return {};
    if (!Holds(ids, id)) ids.push_back(id);
  }
  return ids;
}

// Returns the indices of the operators that look up rows of `table`, and of their gradients.
std::vector<size_t> LookupsOf(const Program& program, const std::string& table) {
  std::vector<size_t> lookups;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    const bool lookup = op.type == "lookup_table" || op.type == "lookup_table_sparse_grad";
    if (lookup && op.inputs[1].front() == table) lookups.push_back(i);
  }
  return lookups;
}

int64_t PaddingOf(const ops::Op& op) {
  const auto it = op.attrs.find("padding_idx");
  return it == op.attrs.end() ? -1 : std::get<int64_t>(it->second);
}

std::string TextOf(const ops::Op& op, const char* attr) {
  const auto it = op.attrs.find(attr);
  return it == op.attrs.end() ? "" : std::get<std::string>(it->second);
}

// If the table counts clicks, checks that the variable with the clicks has one number per record.
Status CheckClick(const Program& program, const std::string& table, const ops::Op& lookup) {
  const std::string click = TextOf(lookup, "click");
  if (click.empty()) return OkStatus();
  const Var* const var = program.FindVar(click);
  const Var* const ids = program.FindVar(lookup.inputs[0].front());
  if (var != nullptr && var->kind == VarKind::kData && ids->desc.shape.rank() > 0 &&
      var->desc.shape.numel() == ids->desc.shape[0]) {
    return OkStatus();
  }
  return InvalidArgument(
      "table \"%s\": click=\"%s\" must be data of the batch, with one number for each record of "
      "\"%s\" [TD1207]",
      table, click, ids->name);
}

// Returns the prefetch_rows operator of `table`; nullptr: there is none.
const ops::Op* PrefetchOf(const Program& program, const std::string& table) {
  for (const ops::Op& op : program.ops) {
    if (op.type == "prefetch_rows" && op.inputs[0][0] == table) return &op;
  }
  return nullptr;
}

Status PrefetchTable(Program& program, size_t at, const std::string& table) {
  TD_REQUIRE(at <= program.ops.size() && program.FindVar(table) != nullptr);
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
  const std::string rules = TextOf(program.ops[lookups.front()], "table_rules");
  const std::string click = TextOf(program.ops[lookups.front()], "click");
  for (const size_t i : lookups) {
    ops::Op& op = program.ops[i];
    const auto id = std::find(ids.begin(), ids.end(), op.inputs[0].front()) - ids.begin();
    TD_REQUIRE(static_cast<size_t>(id) < ids.size());
    op.inputs[0] = {index[static_cast<size_t>(id)]};
    op.inputs[1] = {rows};
    op.attrs["is_distributed"] = false;
    op.attrs.erase("table_rules");
    op.attrs.erase("click");
    op.attrs["padding_idx"] = int64_t{padding < 0 ? -1 : 0};
  }
  return InsertOp(program, at,
                  {.type = "prefetch_rows",
                   .inputs = {{table}, ids},
                   .outputs = {{rows}, index},
                   .attrs = {{"padding_idx", padding}, {"table_rules", rules}, {"click", click}},
                   .role = ops::OpRole::kComm});
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
                                 .role = ops::OpRole::kComm}));
  }
  for (const ParamGrad& pair : tables) {
    const ops::Op* const prefetch = PrefetchOf(program, pair.param);
    std::vector<std::string> click;
    if (prefetch != nullptr && !TextOf(*prefetch, "click").empty()) {
      click.push_back(TextOf(*prefetch, "click"));
    }
    TD_RETURN_IF_ERROR(AppendOp(program, {.type = "push_rows",
                                          .inputs = {{pair.param}, {pair.grad}, {pair.rows}, click},
                                          .outputs = {},
                                          .role = ops::OpRole::kComm}));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> DistributedTables(const Program& program) {
  std::vector<std::string> tables;
  for (const ops::Op& op : program.ops) {
    if (op.type != "lookup_table" || !IsDistributed(op)) continue;
    const std::string& table = op.inputs[1].front();
    if (!Holds(tables, table)) tables.push_back(table);
  }
  for (const std::string& table : tables) {
    if (program.FindVar(table)->kind != VarKind::kParam || IdsOf(program, table).empty()) {
      return InvalidArgument(
          "table \"%s\" has is_distributed, but an operator other than a lookup by ids of the "
          "batch uses the table [TD1207]",
          table);
    }
    const std::vector<size_t> lookups = LookupsOf(program, table);
    for (const size_t i : lookups) {
      const ops::Op &op = program.ops[i], &first = program.ops[lookups.front()];
      const bool same = PaddingOf(op) == PaddingOf(first) &&
                        TextOf(op, "table_rules") == TextOf(first, "table_rules") &&
                        TextOf(op, "click") == TextOf(first, "click");
      if (!IsDistributed(op) || !same) {
        return InvalidArgument(
            "table \"%s\": the lookups of this table differ in is_distributed, padding_idx, "
            "table_rules or click, expected equal values [TD1207]",
            table);
      }
      if (op.type == "lookup_table") TD_RETURN_IF_ERROR(CheckClick(program, table, op));
    }
  }
  return tables;
}

Status PrefetchTables(Program& program, const std::vector<std::string>& tables) {
  if (tables.empty()) return OkStatus();
  for (const std::string& table : tables) TD_REQUIRE(program.FindVar(table) != nullptr);
  for (size_t i = 0; i < tables.size(); ++i) {
    TD_RETURN_IF_ERROR(PrefetchTable(program, i, tables[i]));
  }
  // The number of prefetched rows differs from the number of rows of the table. Therefore the
  // shapes of the gradients are inferred again.
  int64_t batch = 1;
  for (const Var& var : program.vars()) {
    if (var.batch_leading) batch = var.desc.shape[0];
  }
  return BindBatch(program, batch);
}

}  // namespace tandem::graph
