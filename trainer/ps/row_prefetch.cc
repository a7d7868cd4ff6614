#include "trainer/ps/row_prefetch.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "kernels/ops/rows/lookup_table.h"

namespace tandem::trainer {

PrefetchNode::PrefetchNode(const exec::CommNode& node)
    : table_(node.in[0].var),
      height_(node.in[0].desc.shape[0]),
      dim_(node.in[0].desc.shape[1]),
      padding_(std::get<int64_t>(node.op->attrs.at("padding_idx"))) {
  TD_REQUIRE(node.in.size() == node.out.size());
  for (size_t i = 1; i < node.in.size(); ++i) {
    ids_.emplace_back(static_cast<const int64_t*>(node.in[i].data),
                      static_cast<size_t>(node.in[i].desc.shape.numel()));
    ids_of_record_.push_back(ids_.back().size() / static_cast<size_t>(node.in[i].desc.shape[0]));
    index_.push_back(static_cast<int64_t*>(node.out[i].data));
  }
  rows_ = {static_cast<float*>(node.out[0].data),
           static_cast<size_t>(node.out[0].desc.shape.numel())};
}

Status PrefetchNode::Index(std::span<const std::span<const int64_t>> ids, RowIndex* index) const {
  for (const auto& some : ids) {
    TD_RETURN_IF_ERROR(Annotate(ops::CheckIds(some, height_), "table " + table_));
  }
  index->Set(ids, padding_);
  return OkStatus();
}

std::optional<ps::PsRows> PrefetchNode::Foresee(const NextBatchHint& next) {
  next_ids_.clear();
  for (const auto& ids : ids_) {
    const auto data = std::ranges::find(next, ids.data(), &NextValues::variable);
    if (data == next.end()) break;
    const auto* const from = static_cast<const int64_t*>(data->values);
    next_ids_.emplace_back(from, from + ids.size());
  }
  const std::vector<std::span<const int64_t>> ids(next_ids_.begin(), next_ids_.end());
  if (ids.size() != ids_.size() || !Index(ids, &next_).ok()) {
    next_ids_.clear();
    return std::nullopt;
  }
  return ps::PsRows{.variable = table_, .ids = next_.rows(), .to = {}};
}

StatusOr<ps::PsRows> PrefetchNode::Ask() {
  if (std::ranges::equal(ids_, next_ids_, std::ranges::equal)) {
    std::swap(batch_, next_);
  } else {
    TD_RETURN_IF_ERROR(Index(ids_, &batch_));
  }
  next_ids_.clear();
  auto place = batch_.places().begin();
  for (size_t i = 0; i < ids_.size(); ++i) {
    for (size_t k = 0; k < ids_[i].size(); ++k, ++place) {
      index_[i][k] = *place < 0 ? 0 : first() + *place;
    }
  }
  DCHECK(place == batch_.places().end());
  ps::PsRows rows{.variable = table_, .ids = batch_.rows(), .to = {}};
  DCHECK_LE((first() + static_cast<int64_t>(rows.ids.size())) * dim_,
            static_cast<int64_t>(rows_.size()));
  float* to = rows_.data() + first() * dim_;
  std::fill(rows_.data(), to, 0.0f);
  rows.to.reserve(rows.ids.size());
  for (size_t i = 0; i < rows.ids.size(); ++i, to += dim_) rows.to.push_back(to);
  std::fill(to, rows_.data() + rows_.size(), 0.0f);
  return rows;
}

std::vector<float> PrefetchNode::Counts(const exec::CommTensor& click) const {
  const auto clicked = [&click](size_t record) {
    return click.desc.dtype == DType::kF32
               ? static_cast<const float*>(click.data)[record]
               : static_cast<float>(static_cast<const int64_t*>(click.data)[record]);
  };
  std::vector<float> counts(2 * batch_.rows().size(), 0.0f);
  auto place = batch_.places().begin();
  for (size_t i = 0; i < ids_.size(); ++i) {
    for (size_t k = 0; k < ids_[i].size(); ++k, ++place) {
      if (*place < 0) continue;
      float* const of_row = counts.data() + 2 * static_cast<size_t>(*place);
      of_row[0] += 1;
      of_row[1] += clicked(k / ids_of_record_[i]);
    }
  }
  return counts;
}

StatusOr<int> PrefetchHandler::Register(const exec::CommNode& node) {
  if (node.op->type != "prefetch_rows" || node.place.kind != PlaceKind::kCpu) {
    return Unimplemented("%s on %s is not implemented in an evaluation [TD1109]", node.op->type,
                         ToString(node.place));
  }
  nodes_.emplace_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

void PrefetchHandler::Start(int index, int64_t, exec::CommDone* done) {
  TD_REQUIRE(index >= 0 && static_cast<size_t>(index) < nodes_.size());
  StatusOr<ps::PsRows> rows = nodes_[static_cast<size_t>(index)].Ask();
  if (!rows.ok()) return done->Complete(rows.status());
  pull_(*std::move(rows), done);
}

}  // namespace tandem::trainer
