#include "pserver/tables/row_updater.h"

#include <algorithm>
#include <numeric>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Number of weights (floats) per chunk. A chunk with its gradients and slots fits into the L2
// cache.
constexpr int64_t kChunkFloats = 16384;

}  // namespace

StatusOr<RowUpdater> RowUpdater::Make(const TableSpec& spec, const graph::OptimizerSpec& optimizer,
                                      const exec::Backend& backend, Device& device, int threads) {
  const int64_t dim = spec.dim(), rows = std::max<int64_t>(2, kChunkFloats / dim);
  RowUpdater made(spec, rows);
  for (int part = 0; part < threads; ++part) {
    TD_ASSIGN_OR_RETURN(auto program, UpdateProgram::MakeRows(spec.variable, rows, dim, optimizer,
                                                              backend, device));
    made.programs_.push_back(std::move(program));
  }
  const auto& slots = made.programs_[0]->slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const float start = slots[i].value.span<float>()[0];
    if (slots[i].value.numel() == 1) {
      made.scalar_slots_.push_back(i);
      made.scalars_.emplace_back(slots[i].name, start);
    } else {
      made.row_slots_.push_back(i);
      made.slot_names_.push_back(slots[i].name);
      made.slot_start_.push_back(start);
    }
  }
  made.next_scalars_ = made.scalars_;
  return made;
}

void RowUpdater::Append(int part, Chunk& chunk, const RowStore& store, uint32_t at,
                        const float* gradient) {
  const UpdateProgram& program = *programs_[static_cast<size_t>(part)];
  const size_t position = chunk.at.size();
  TD_REQUIRE(position < rows_max());
  const float* row = store.Row(at);
  const int64_t columns = store.brief(at) ? brief_ : dim_;
  const auto copy = [&](float* to) {
    to = std::copy_n(row, columns, to + position * static_cast<size_t>(dim_));
    if (columns < dim_) std::fill_n(to, dim_ - columns, 0.0f);
    row += columns;
  };
  copy(program.param().data());
  for (const size_t s : row_slots_) copy(program.slots()[s].value.span<float>().data());
  if (gradient != nullptr) {
    std::copy_n(gradient, dim_, program.grad().data() + chunk.gradients * dim_);
    program.rows()[chunk.gradients++] = static_cast<int64_t>(position);
  }
  chunk.at.push_back(at);
}

Status RowUpdater::Run(int part, Chunk& chunk, RowStore& store, float rate) {
  UpdateProgram& program = *programs_[static_cast<size_t>(part)];
  const auto& slots = program.slots();
  std::fill(program.rows().begin() + static_cast<int64_t>(chunk.gradients), program.rows().end(),
            -1);
  // Sets the parameters and slots after the last row of the chunk to 0. An earlier chunk left
  // values there, and repeated updates would let these values grow without bound.
  const size_t used = chunk.at.size() * static_cast<size_t>(dim_);
  std::fill(program.param().begin() + static_cast<int64_t>(used), program.param().end(), 0.0f);
  for (const size_t s : row_slots_) {
    const auto values = slots[s].value.span<float>();
    std::fill(values.begin() + static_cast<int64_t>(used), values.end(), 0.0f);
  }
  // Sets each slot of one number (such as a power of beta) to its value before the step. A step
  // updates its rows in several chunks, and every chunk must start with the same values.
  for (size_t i = 0; i < scalar_slots_.size(); ++i) {
    slots[scalar_slots_[i]].value.span<float>()[0] = scalars_[i].second;
  }
  TD_RETURN_IF_ERROR(Annotate(program.Apply(rate), "update of table " + table_));
  for (size_t i = 0; part == 0 && i < scalar_slots_.size(); ++i) {
    next_scalars_[i].second = slots[scalar_slots_[i]].value.span<float>()[0];
  }
  for (size_t position = 0; position < chunk.at.size(); ++position) {
    float* row = store.Row(chunk.at[position]);
    const int64_t columns = store.brief(chunk.at[position]) ? brief_ : dim_;
    row = std::copy_n(program.param().data() + position * dim_, columns, row);
    for (const size_t s : row_slots_) {
      row = std::copy_n(slots[s].value.span<float>().data() + position * dim_, columns, row);
    }
  }
  chunk = {};
  return OkStatus();
}

Status RowUpdater::Update(int part, RowStore& store, std::span<const uint32_t> at,
                          const float* gradients, int64_t stride, float learning_rate) {
  TD_REQUIRE(static_cast<size_t>(part) < programs_.size());
  TD_REQUIRE(at.size() <= rows_max() && stride >= dim_);
  Chunk chunk;
  gradients += stride - dim_;
  for (size_t i = 0; i < at.size(); ++i) {
    Append(part, chunk, store, at[i], gradients + i * static_cast<size_t>(stride));
  }
  return Run(part, chunk, store, learning_rate);
}

Status RowUpdater::UpdateAll(RowStore& store, std::span<const uint32_t> at, const float* gradients,
                             float learning_rate) {
  TD_REQUIRE(store.slabs(/*brief=*/true).size() == 0);
  std::vector<size_t> order(at.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return at[a] < at[b]; });
  Chunk chunk;
  size_t next = 0;
  for (uint32_t place = 0; place < store.size(); ++place) {
    const float* g = nullptr;
    if (next < order.size() && at[order[next]] == place) {
      g = gradients + order[next++] * static_cast<size_t>(dim_);
    }
    Append(0, chunk, store, place, g);
    if (static_cast<int64_t>(chunk.at.size()) == rows_max_) {
      TD_RETURN_IF_ERROR(Run(0, chunk, store, learning_rate));
    }
  }
  const bool done = chunk.at.empty() && store.size() != 0;
  return done ? OkStatus() : Run(0, chunk, store, learning_rate);
}

}  // namespace tandem::pserver
