// CPU kernels of fused_attention that work on blocks of the matrix of weights. A block stays in the
// cache. Each element of a result is a sum over the blocks in ascending order, whichever threads
// compute them, so that the bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/gemm.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/fused/fused_attention_job.h"
#include "kernels/ops/fused/fused_attention_plain.h"

namespace tandem::ops {
namespace {

// Rows and columns of a block. One call of the loop of dropout makes 128 numbers.
constexpr int64_t kRows = 64, kColumns = 64, kDropoutColumns = AttentionJob::kMaskColumnsMax;

// `n` rows in blocks of `size`. The last block may have fewer rows.
struct Blocks {
  int64_t n, size;

  int64_t count() const { return (n + size - 1) / size; }
  int64_t Begin(int64_t i) const { return i * size; }
  int64_t Length(int64_t i) const { return std::min(size, n - i * size); }
  // Returns the number of blocks that contain the first `rows` rows.
  int64_t Covering(int64_t rows) const { return (rows + size - 1) / size; }
};

// The blocks of a matrix [t, s]: rows of Q by rows of K.
struct Grid {
  Blocks rows, columns;
};

// A product for each block of a grid.
class BlockGemm {
 public:
  // sizes(rows, columns) returns the sizes of the product for a block.
  template <typename Sizes>
  static StatusOr<BlockGemm> Make(const Grid& grid, const Sizes& sizes) {
    BlockGemm made;
    made.grid_ = grid;
    for (const bool row_rest : {false, true}) {
      const int64_t rows = row_rest ? grid.rows.n % grid.rows.size : grid.rows.size;
      if (rows == 0 || rows > grid.rows.n) continue;
      for (const bool column_rest : {false, true}) {
        const int64_t columns =
            column_rest ? grid.columns.n % grid.columns.size : grid.columns.size;
        if (columns == 0 || columns > grid.columns.n) continue;
        TD_ASSIGN_OR_RETURN(made.gemm_[row_rest][column_rest],
                            XsmmGemm::Make(sizes(rows, columns)));
      }
    }
    return made;
  }

  void Run(int64_t i, int64_t j, const float* a, const float* b, float* c) const {
    TD_REQUIRE(i < grid_.rows.count() && j < grid_.columns.count());
    const bool row_rest = grid_.rows.Length(i) < grid_.rows.size;
    const bool column_rest = grid_.columns.Length(j) < grid_.columns.size;
    gemm_[row_rest][column_rest].Run(0, a, b, c);
  }

 private:
  Grid grid_{};
  XsmmGemm gemm_[2][2];
};

XsmmGemm::Sizes Product(int64_t m, int64_t n, int64_t k, bool trans_a, bool accumulate) {
  return {.m = m, .n = n, .k = k, .trans_a = trans_a, .accumulate = accumulate, .parts = 1};
}

// Reserves pieces of scratch memory, aligned to 64 bytes.
class Pieces {
 public:
  // Returns the offset of a piece of n elements.
  int64_t Add(int64_t n) {
    const int64_t at = total_;
    total_ += (n + 15) / 16 * 16;
    return at;
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

// Rows of one matrix of a tensor, each of n elements.
struct MatrixRows {
  const MatrixLayout& layout;
  int64_t matrix, first, rows, n;

  int64_t At() const { return layout.At(matrix) + first * layout.row; }
};

// Returns the rows, one directly after another: in the tensor itself, or copied to `copy`.
const float* DenseRows(const float* x, const MatrixRows& part, float* copy) {
  const float* from = x + part.At();
  if (part.layout.row == part.n) return from;
  for (int64_t r = 0; r < part.rows; ++r) {
    std::copy_n(from + r * part.layout.row, part.n, copy + r * part.n);
  }
  return copy;
}

void StoreRows(const float* rows, const MatrixRows& part, float* out) {
  for (int64_t r = 0; r < part.rows; ++r) {
    std::copy_n(rows + r * part.n, part.n, out + part.At() + r * part.layout.row);
  }
}

// Transposes the rows block by block: block j becomes the matrix [n, length of j] at `out` +
// Begin(j) * n.
void TransposeBlocks(const Loops& loops, const Blocks& blocks, const float* rows, int64_t n,
                     float* out) {
  for (int64_t j = 0; j < blocks.count(); ++j) {
    const int64_t at = blocks.Begin(j) * n;
    loops.transpose(rows + at, out + at, blocks.Length(j), n);
  }
}

Grid GridOf(const AttentionJob& job) {
  return {{job.shape.t, kRows}, {job.shape.s, job.drop ? kDropoutColumns : kColumns}};
}

// A job, its blocks, and the product that forward and backward share.
struct Plan {
  AttentionJob job;
  Grid grid;
  BlockGemm scores;  // Q K^T

  // Returns the number of blocks of columns that row block `i` needs.
  int64_t ColumnsOf(int64_t i) const {
    return grid.columns.Covering(job.shape.Kept(grid.rows.Begin(i) + grid.rows.Length(i) - 1));
  }
  // Returns the scores of block (i, j).
  MathLoops::ScoreBlock Block(int64_t i, int64_t j) const {
    return {grid.rows.Length(i), grid.columns.Length(j),
            job.shape.Kept(grid.rows.Begin(i)) - grid.columns.Begin(j), job.shape.causal ? 1 : 0,
            job.shape.alpha};
  }
  WeightBlock Weights(int64_t matrix, int64_t i, int64_t j) const {
    return {matrix, grid.rows.Begin(i), grid.rows.Length(i), grid.columns.Begin(j),
            grid.columns.Length(j)};
  }
};

StatusOr<Plan> PlanOf(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const AttentionJob job, AttentionJobOf(view));
  const AttentionShape& a = job.shape;
  if (a.t < 1 || a.dim < 1 || a.width < 1)
    return Unimplemented("this kernel does not support empty matrices");
  const Grid grid = GridOf(job);
  TD_ASSIGN_OR_RETURN(const BlockGemm scores,
                      BlockGemm::Make(grid, [&](int64_t rows, int64_t columns) {
                        return Product(rows, columns, a.dim, false, false);
                      }));
  return Plan{job, grid, scores};
}

// Returns the number of threads for `products` products of matrices like Q K^T each.
int PartsOf(const AttentionShape& a, int threads, int64_t products) {
  const double scores = static_cast<double>(a.matrices) * static_cast<double>(a.t) *
                        static_cast<double>(a.s) * static_cast<double>(products);
  const double cost = std::min(scores * static_cast<double>(a.dim + a.width) / 32, 1e15);
  return PartsFor(threads, static_cast<int64_t>(cost));
}

// ---- Forward ------------------------------------------------------------------------------------

struct ForwardState {
  Plan plan;
  BlockGemm values;  // Out += weights V
  // Pieces of scratch memory of a thread: K transposed by blocks, V, rows of Q, a block of weights,
  // its factors of dropout, maximum and sum of each row, rows of Out.
  int64_t keys = 0, v = 0, q = 0, weights = 0, mask = 0, max = 0, sum = 0, out = 0;
  int64_t floats = 0;  // elements of a thread's scratch memory
  int parts = 1;
};

// Computes rows of Out. Each thread has its own object.
class ForwardPart {
 public:
  ForwardPart(const ForwardState& s, const KernelArgs& args, const AttentionInputs& in, int part)
      : s_(s), args_(args), in_(in), base_(static_cast<float*>(args.scratch) + part * s.floats) {}

  // Computes tasks [begin, end). A task is one block of rows of one matrix.
  void Run(int64_t begin, int64_t end) {
    const int64_t count = s_.plan.grid.rows.count();
    for (int64_t task = begin; task < end; ++task) {
      if (task == begin || task % count == 0) Load(task / count);
      RunRows(task % count);
    }
  }

 private:
  void Load(int64_t matrix);
  void RunRows(int64_t i);
  void StoreResult(const MatrixRows& part);

  const ForwardState& s_;
  const KernelArgs& args_;
  const AttentionInputs& in_;
  float* const base_;
  int64_t matrix_ = 0;
  const float* v_ = nullptr;
};

void ForwardPart::Load(int64_t matrix) {
  const AttentionShape& a = s_.plan.job.shape;
  matrix_ = matrix;
  // The piece of V is free until V is loaded.
  const float* k = DenseRows(in_.k, {a.k, matrix, 0, a.s, a.dim}, base_ + s_.v);
  TransposeBlocks(s_.plan.job.loops, s_.plan.grid.columns, k, a.dim, base_ + s_.keys);
  v_ = DenseRows(in_.v, {a.v, matrix, 0, a.s, a.width}, base_ + s_.v);
}

void ForwardPart::RunRows(int64_t i) {
  const Plan& plan = s_.plan;
  const AttentionJob& job = plan.job;
  const AttentionShape& a = job.shape;
  const int64_t first = plan.grid.rows.Begin(i), rows = plan.grid.rows.Length(i);
  const float* q = DenseRows(in_.q, {a.q, matrix_, first, rows, a.dim}, base_ + s_.q);
  float *weights = base_ + s_.weights, *mask = base_ + s_.mask, *out = base_ + s_.out;
  std::fill_n(out, rows * a.width, 0.0f);
  for (int64_t j = 0; j < plan.ColumnsOf(i); ++j) {
    const int64_t column = plan.grid.columns.Begin(j);
    plan.scores.Run(i, j, q, base_ + s_.keys + column * a.dim, weights);
    job.math.softmax_block(plan.Block(i, j), j == 0, weights, base_ + s_.max, base_ + s_.sum, out,
                           a.width);
    if (job.drop) {
      job.Mask(in_, plan.Weights(matrix_, i, j), mask);
      job.loops.mul(weights, mask, weights, rows * plan.grid.columns.Length(j));
    }
    s_.values.Run(i, j, weights, v_ + column * a.width, out);
  }
  StoreResult({a.out, matrix_, first, rows, a.width});
}

// Divides the rows of Out by their sums, and writes Out and LogSum.
void ForwardPart::StoreResult(const MatrixRows& part) {
  const float *max = base_ + s_.max, *sum = base_ + s_.sum, *out = base_ + s_.out;
  float* log_sum = OutF32(args_, 1) + part.matrix * s_.plan.job.shape.t + part.first;
  for (int64_t r = 0; r < part.rows; ++r) {
    s_.plan.job.loops.scale(out + r * part.n, 1.0f / sum[r], 0.0f,
                            OutF32(args_, 0) + part.At() + r * part.layout.row, part.n);
    log_sum[r] = max[r] + std::log(sum[r]);
  }
}

Status RunForward(ForwardState& s, const KernelArgs& args) {
  TD_ASSIGN_OR_RETURN(const AttentionInputs in, s.plan.job.Inputs(args));
  const int64_t tasks = s.plan.job.shape.matrices * s.plan.grid.rows.count();
  ParallelFor(s.parts, tasks, [&](int part, int64_t begin, int64_t end) {
    ForwardPart(s, args, in, part).Run(begin, end);
  });
  return OkStatus();
}

StatusOr<Kernel> PrepareForward(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Plan plan, PlanOf(view));
  const AttentionShape& a = plan.job.shape;
  TD_REQUIRE(view.out(0).shape.numel() == a.matrices * a.t * a.width);
  const auto product = [&](int64_t rows, int64_t columns) {
    return Product(rows, a.width, columns, false, true);
  };
  TD_ASSIGN_OR_RETURN(const BlockGemm values, BlockGemm::Make(plan.grid, product));
  ForwardState s{.plan = plan, .values = values};
  Pieces pieces;
  const int64_t columns = plan.grid.columns.size;
  s.keys = pieces.Add(a.s * a.dim);
  s.v = pieces.Add(a.packed ? a.s * std::max(a.dim, a.width) : 0);
  s.q = pieces.Add(kRows * a.dim);
  s.weights = pieces.Add(kRows * columns);
  s.mask = pieces.Add(plan.job.drop ? kRows * columns : 0);
  s.max = pieces.Add(kRows);
  s.sum = pieces.Add(kRows);
  s.out = pieces.Add(kRows * a.width);
  s.floats = pieces.total();
  s.parts = static_cast<int>(
      std::clamp<int64_t>(a.matrices * plan.grid.rows.count(), 1, PartsOf(a, ctx.threads, 1)));
  const auto bytes = static_cast<size_t>(s.floats * s.parts) * sizeof(float);
  return MakeKernel<ForwardState, RunForward>(std::move(s), bytes);
}

// ---- Backward -----------------------------------------------------------------------------------

// Gradients that a pass over blocks computes.
struct Wanted {
  bool q, k, v;
};

struct BackwardState {
  Plan plan;
  BlockGemm gw = {};  // gradient of the weights: Out@GRAD V^T
  // Q@GRAD += gx K; K@GRAD += gx^T Q; V@GRAD += weights^T Out@GRAD
  BlockGemm gq = {}, gk = {}, gv = {};
  Wanted wanted = {};
  // Pieces of scratch memory of a thread: K and V transposed by blocks, copies of K, V and of rows
  // of Q, Out and Out@GRAD, two blocks, factors of dropout, dots, and the gradients. `gq` is for
  // the rows of one block, `gk` and `gv` for all rows of a matrix.
  struct Offsets {
    int64_t keys, values, k, v, q, out, g, weights, gw, mask, dots, gq, gk, gv;
  } at = {};
  int64_t floats = 0;
  int parts = 1;
  bool split = false;  // whether threads share the blocks of a matrix
};

// Computes gradients of blocks. Each thread has its own object.
class BackwardPart {
 public:
  BackwardPart(const BackwardState& s, const KernelArgs& args, const AttentionInputs& in, int part)
      : s_(s), args_(args), in_(in), base_(static_cast<float*>(args.scratch) + part * s.floats) {}

  // Computes all gradients of matrices [begin, end).
  void RunMatrices(int64_t begin, int64_t end);
  // Computes K@GRAD and V@GRAD of tasks [begin, end). A task is one block of columns of one matrix.
  void RunColumns(int64_t begin, int64_t end);
  // Computes Q@GRAD of tasks [begin, end). A task is one block of rows of one matrix.
  void RunRows(int64_t begin, int64_t end);

 private:
  void Load(int64_t matrix);
  void LoadRows(int64_t i);
  void RunBlock(int64_t i, int64_t j, Wanted wanted);
  void ClearColumns(int64_t first, int64_t rows);
  void StoreColumns(int64_t first, int64_t rows);
  void StoreRowsOf(int64_t i);
  float* Out(int slot) const {
    return OutF32(args_, s_.plan.job.shape.packed ? kAttentionQ : slot);
  }

  const BackwardState& s_;
  const KernelArgs& args_;
  const AttentionInputs& in_;
  float* const base_;
  int64_t matrix_ = 0;
  const float *k_ = nullptr, *q_ = nullptr, *g_ = nullptr;
};

void BackwardPart::Load(int64_t matrix) {
  const AttentionShape& a = s_.plan.job.shape;
  const Loops& loops = s_.plan.job.loops;
  const Blocks& columns = s_.plan.grid.columns;
  matrix_ = matrix;
  k_ = DenseRows(in_.k, {a.k, matrix, 0, a.s, a.dim}, base_ + s_.at.k);
  const float* v = DenseRows(in_.v, {a.v, matrix, 0, a.s, a.width}, base_ + s_.at.v);
  TransposeBlocks(loops, columns, k_, a.dim, base_ + s_.at.keys);
  TransposeBlocks(loops, columns, v, a.width, base_ + s_.at.values);
}

// Loads the rows of block `i`, and computes the dots of Out and Out@GRAD. With dropout too, the dot
// of a row is the sum of its weights times their gradients.
void BackwardPart::LoadRows(int64_t i) {
  const AttentionShape& a = s_.plan.job.shape;
  const int64_t first = s_.plan.grid.rows.Begin(i), rows = s_.plan.grid.rows.Length(i);
  const MatrixRows out_rows{a.out, matrix_, first, rows, a.width};
  q_ = DenseRows(in_.q, {a.q, matrix_, first, rows, a.dim}, base_ + s_.at.q);
  g_ = DenseRows(InF32(args_, kAttentionOutGrad), out_rows, base_ + s_.at.g);
  const float* out = DenseRows(InF32(args_, kAttentionOut), out_rows, base_ + s_.at.out);
  s_.plan.job.math.row_dots(out, g_, base_ + s_.at.dots, rows, a.width);
  std::fill_n(base_ + s_.at.gq, rows * a.dim, 0.0f);
}

void BackwardPart::RunBlock(int64_t i, int64_t j, Wanted wanted) {
  const Plan& plan = s_.plan;
  const AttentionJob& job = plan.job;
  const AttentionShape& a = job.shape;
  const int64_t column = plan.grid.columns.Begin(j);
  const int64_t n = plan.grid.rows.Length(i) * plan.grid.columns.Length(j);
  float *weights = base_ + s_.at.weights, *gw = base_ + s_.at.gw, *mask = base_ + s_.at.mask;
  plan.scores.Run(i, j, q_, base_ + s_.at.keys + column * a.dim, weights);
  s_.gw.Run(i, j, g_, base_ + s_.at.values + column * a.width, gw);
  if (job.drop) {
    job.Mask(in_, plan.Weights(matrix_, i, j), mask);
    job.loops.mul(gw, mask, gw, n);
  }
  const float* log_sum = InF32(args_, kAttentionLogSum) + matrix_ * a.t + plan.grid.rows.Begin(i);
  job.math.softmax_block_grad(plan.Block(i, j), log_sum, base_ + s_.at.dots, weights, gw);
  if (wanted.v) {
    if (job.drop) job.loops.mul(weights, mask, weights, n);
    s_.gv.Run(i, j, weights, g_, base_ + s_.at.gv + column * a.width);
  }
  if (wanted.k) s_.gk.Run(i, j, gw, q_, base_ + s_.at.gk + column * a.dim);
  if (wanted.q) s_.gq.Run(i, j, gw, k_ + column * a.dim, base_ + s_.at.gq);
}

void BackwardPart::ClearColumns(int64_t first, int64_t rows) {
  const AttentionShape& a = s_.plan.job.shape;
  if (s_.wanted.k) std::fill_n(base_ + s_.at.gk + first * a.dim, rows * a.dim, 0.0f);
  if (s_.wanted.v) std::fill_n(base_ + s_.at.gv + first * a.width, rows * a.width, 0.0f);
}

void BackwardPart::StoreColumns(int64_t first, int64_t rows) {
  const AttentionShape& a = s_.plan.job.shape;
  if (s_.wanted.k) {
    StoreRows(base_ + s_.at.gk + first * a.dim, {a.k, matrix_, first, rows, a.dim},
              Out(kAttentionK));
  }
  if (s_.wanted.v) {
    StoreRows(base_ + s_.at.gv + first * a.width, {a.v, matrix_, first, rows, a.width},
              Out(kAttentionV));
  }
}

void BackwardPart::StoreRowsOf(int64_t i) {
  const AttentionShape& a = s_.plan.job.shape;
  const Blocks& rows = s_.plan.grid.rows;
  if (!s_.wanted.q) return;
  StoreRows(base_ + s_.at.gq, {a.q, matrix_, rows.Begin(i), rows.Length(i), a.dim},
            Out(kAttentionQ));
}

void BackwardPart::RunMatrices(int64_t begin, int64_t end) {
  for (int64_t matrix = begin; matrix < end; ++matrix) {
    Load(matrix);
    ClearColumns(0, s_.plan.job.shape.s);
    for (int64_t i = 0; i < s_.plan.grid.rows.count(); ++i) {
      LoadRows(i);
      for (int64_t j = 0; j < s_.plan.ColumnsOf(i); ++j) RunBlock(i, j, s_.wanted);
      StoreRowsOf(i);
    }
    StoreColumns(0, s_.plan.job.shape.s);
  }
}

void BackwardPart::RunColumns(int64_t begin, int64_t end) {
  const Grid& grid = s_.plan.grid;
  const int64_t count = grid.columns.count();
  for (int64_t task = begin; task < end; ++task) {
    const int64_t j = task % count;
    if (task == begin || j == 0) Load(task / count);
    ClearColumns(grid.columns.Begin(j), grid.columns.Length(j));
    for (int64_t i = 0; i < grid.rows.count(); ++i) {
      if (s_.plan.ColumnsOf(i) <= j) continue;
      LoadRows(i);
      RunBlock(i, j, {false, s_.wanted.k, s_.wanted.v});
    }
    StoreColumns(grid.columns.Begin(j), grid.columns.Length(j));
  }
}

void BackwardPart::RunRows(int64_t begin, int64_t end) {
  const int64_t count = s_.plan.grid.rows.count();
  for (int64_t task = begin; task < end; ++task) {
    const int64_t i = task % count;
    if (task == begin || i == 0) Load(task / count);
    LoadRows(i);
    for (int64_t j = 0; j < s_.plan.ColumnsOf(i); ++j) RunBlock(i, j, {true, false, false});
    StoreRowsOf(i);
  }
}

Status RunBackward(BackwardState& s, const KernelArgs& args) {
  TD_ASSIGN_OR_RETURN(const AttentionInputs in, s.plan.job.Inputs(args));
  const int64_t matrices = s.plan.job.shape.matrices;
  if (!s.split) {
    ParallelFor(s.parts, matrices, [&](int part, int64_t begin, int64_t end) {
      BackwardPart(s, args, in, part).RunMatrices(begin, end);
    });
    return OkStatus();
  }
  if (s.wanted.k || s.wanted.v) {
    const int64_t tasks = matrices * s.plan.grid.columns.count();
    ParallelFor(s.parts, tasks, [&](int part, int64_t begin, int64_t end) {
      BackwardPart(s, args, in, part).RunColumns(begin, end);
    });
  }
  if (s.wanted.q) {
    const int64_t tasks = matrices * s.plan.grid.rows.count();
    ParallelFor(s.parts, tasks, [&](int part, int64_t begin, int64_t end) {
      BackwardPart(s, args, in, part).RunRows(begin, end);
    });
  }
  return OkStatus();
}

Status MakeProducts(BackwardState& s) {
  const AttentionShape& a = s.plan.job.shape;
  const Grid& grid = s.plan.grid;
  TD_ASSIGN_OR_RETURN(s.gw, BlockGemm::Make(grid, [&](int64_t rows, int64_t columns) {
                        return Product(rows, columns, a.width, false, false);
                      }));
  TD_ASSIGN_OR_RETURN(s.gq, BlockGemm::Make(grid, [&](int64_t rows, int64_t columns) {
                        return Product(rows, a.dim, columns, false, true);
                      }));
  TD_ASSIGN_OR_RETURN(s.gk, BlockGemm::Make(grid, [&](int64_t rows, int64_t columns) {
                        return Product(columns, a.dim, rows, true, true);
                      }));
  TD_ASSIGN_OR_RETURN(s.gv, BlockGemm::Make(grid, [&](int64_t rows, int64_t columns) {
                        return Product(columns, a.width, rows, true, true);
                      }));
  return OkStatus();
}

int64_t PlacePieces(const Plan& plan, BackwardState::Offsets& at) {
  const AttentionShape& a = plan.job.shape;
  const int64_t block = kRows * plan.grid.columns.size;
  Pieces pieces;
  at.keys = pieces.Add(a.s * a.dim);
  at.values = pieces.Add(a.s * a.width);
  at.k = pieces.Add(a.packed ? a.s * a.dim : 0);
  at.v = pieces.Add(a.packed ? a.s * a.width : 0);
  at.q = pieces.Add(a.packed ? kRows * a.dim : 0);
  at.out = pieces.Add(a.packed ? kRows * a.width : 0);
  at.g = pieces.Add(a.packed ? kRows * a.width : 0);
  at.weights = pieces.Add(block);
  at.gw = pieces.Add(block);
  at.mask = pieces.Add(plan.job.drop ? block : 0);
  at.dots = pieces.Add(kRows);
  at.gq = pieces.Add(kRows * a.dim);
  at.gk = pieces.Add(a.s * a.dim);
  at.gv = pieces.Add(a.s * a.width);
  return pieces.total();
}

StatusOr<Kernel> PrepareBackward(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Plan plan, PlanOf(view));
  const AttentionShape& a = plan.job.shape;
  TD_REQUIRE(view.in(kAttentionOutGrad).shape.numel() == a.matrices * a.t * a.width);
  TD_REQUIRE(view.in(kAttentionLogSum).shape.numel() == a.matrices * a.t);
  BackwardState s{.plan = plan};
  TD_RETURN_IF_ERROR(MakeProducts(s));
  const auto wanted = [&](size_t slot) { return view.has_out(a.packed ? size_t{0} : slot); };
  s.wanted = {wanted(kAttentionQ), wanted(kAttentionK), wanted(kAttentionV)};
  s.floats = PlacePieces(plan, s.at);
  const int parts = PartsOf(a, ctx.threads, 3);
  // A pass over whole matrices has 5 products for each block, two passes that split them have 7.
  s.split = 7 * a.matrices < 5 * parts;
  const int64_t tasks =
      s.split ? a.matrices * std::max(plan.grid.rows.count(), plan.grid.columns.count())
              : a.matrices;
  s.parts = static_cast<int>(std::clamp<int64_t>(tasks, 1, parts));
  const auto bytes = static_cast<size_t>(s.floats * s.parts) * sizeof(float);
  return MakeKernel<BackwardState, RunBackward>(std::move(s), bytes);
}

}  // namespace

constinit const KernelList kFusedAttentionCpu = {{"blocks", OrWidened<PrepareForward>},
                                                 {"plain", OrWidened<PreparePlainAttention>}};
constinit const KernelList kFusedAttentionGradCpu = {
    {"blocks", OrWidened<PrepareBackward>}, {"plain", OrWidened<PreparePlainAttentionGrad>}};

}  // namespace tandem::ops
