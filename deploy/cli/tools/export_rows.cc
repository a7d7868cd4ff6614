#include "deploy/cli/tools/export_rows.h"

#include <cstring>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/tables/table_rules.h"
#include "trainer/ps/table_file.h"

namespace tandem::deploy {
namespace {

using Mode = RowChoice::Mode;
// Scores of rows, by table and id.
using Scores = std::map<std::string, std::unordered_map<uint64_t, float>>;

struct Chosen {
  int64_t dim = 0;
  std::vector<uint64_t> ids;
  std::vector<float> values;
};

// A function that is called with each row: its table, its index `row` in `rows`, the index `begin`
// of its first value in `rows`, and its score.
using TakeRow = std::function<void(const ps::PsTable& table, const ps::PsTableRows& rows,
                                   size_t row, size_t begin, float score)>;
Status ForEachRow(const std::string& path, const TakeRow& take) {
  return trainer::ReadTableFile(
      path, [&](const ps::PsTableRows& rows, const ps::PsTable& table) -> Status {
        TD_ASSIGN_OR_RETURN(const TableRules rules, ParseTableRules(table.rules));
        const std::vector<size_t> begins = rows.Begins();
        for (size_t i = 0; i < rows.ids.size(); ++i) {
          const ps::PsTableRows::Use& use = rows.use[i];
          take(table, rows, i, begins[i], ScoreOf(rules, use.show, use.click));
        }
        return OkStatus();
      });
}

// Appends the weights of a row to `to`. A brief row has only its first value.
void AddWeights(const ps::PsTableRows& rows, size_t row, size_t begin, Chosen& to) {
  const auto columns = rows.use[row].brief ? int64_t{1} : to.dim;
  const float* const weights = rows.content.data() + begin;
  to.ids.push_back(rows.ids[row]);
  to.values.insert(to.values.end(), weights, weights + columns);
  to.values.resize(to.values.size() + static_cast<size_t>(to.dim - columns), 0.0f);
}

StatusOr<Tensor> Filled(const TensorDesc& desc, const void* values, Device& device) {
  TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make(desc, device));
  if (desc.bytes() > 0) std::memcpy(tensor.data(), values, desc.bytes());
  return tensor;
}

}  // namespace

StatusOr<trainer::TensorMap> ChooseRows(const std::string& path, const RowChoice& choice,
                                        Device& device) {
  Scores before;
  if (choice.mode == Mode::kDelta) {
    TD_RETURN_IF_ERROR(ForEachRow(
        choice.since, [&](const ps::PsTable& table, const ps::PsTableRows& rows, size_t row, size_t,
                          float score) { before[table.variable][rows.ids[row]] = score; }));
  }
  const auto is_chosen = [&](const std::string& table, uint64_t id, uint32_t age, float score) {
    if (choice.mode == Mode::kFull) return true;
    if (score < static_cast<float>(choice.base_threshold)) return false;
    if (choice.delta_keep > 0 && age > choice.delta_keep) return false;
    if (choice.mode == Mode::kBase) return true;
    const auto& scores = before[table];
    const auto it = scores.find(id);
    const float gain = score - (it == scores.end() ? 0.0f : it->second);
    return gain >= static_cast<float>(choice.delta_threshold);
  };
  std::map<std::string, Chosen> tables;
  TD_RETURN_IF_ERROR(ForEachRow(path, [&](const ps::PsTable& table, const ps::PsTableRows& rows,
                                          size_t row, size_t begin, float score) {
    Chosen& chosen = tables[table.variable];
    chosen.dim = table.dim;
    if (is_chosen(table.variable, rows.ids[row], rows.use[row].age, score)) {
      AddWeights(rows, row, begin, chosen);
    }
  }));
  trainer::TensorMap tensors;
  for (const auto& [name, chosen] : tables) {
    const auto n = static_cast<int64_t>(chosen.ids.size());
    TD_ASSIGN_OR_RETURN(tensors[name + "/ids"],
                        Filled({DType::kI64, {n}}, chosen.ids.data(), device));
    TD_ASSIGN_OR_RETURN(tensors[name + "/rows"],
                        Filled({DType::kF32, {n, chosen.dim}}, chosen.values.data(), device));
  }
  return tensors;
}

}  // namespace tandem::deploy
