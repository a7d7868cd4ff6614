// Tables on pservers: their rows come before a step and their gradients go behind it.
#include <algorithm>

#include "kernels/graph/passes/distribute.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem {
namespace {

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
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
    if (op.type != "lookup_table" || Holds(op.inputs[0], table)) return {};
    const std::string& id = op.inputs[0].front();
    if (program.FindVar(id)->kind != VarKind::kData) return {};
    if (!Holds(ids, id)) ids.push_back(id);
  }
  return ids;
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
  for (size_t i = 0; i < tables.size(); ++i) {
    const std::string& table = tables[i].param;
    const std::vector<std::string> ids = IdsOf(program, table);
    CHECK(!ids.empty()) << table;
    TD_RETURN_IF_ERROR(InsertOp(program, i,
                                {.type = "pull_rows",
                                 .inputs = {{table}, ids},
                                 .outputs = {{table}},
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

}  // namespace tandem
