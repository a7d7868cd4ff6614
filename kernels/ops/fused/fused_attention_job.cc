#include "kernels/ops/fused/fused_attention_job.h"

#include <algorithm>

namespace tandem::ops {

StatusOr<AttentionJob> AttentionJobOf(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const AttentionShape shape, AttentionShapeOf(view));
  const double p = view.attr<double>("dropout_prob");
  TD_REQUIRE(p >= 0 && p < 1);
  const bool drop = p > 0 && !view.attr<bool>("is_test");
  TD_REQUIRE(!drop || view.has_in(kAttentionPosition));
  return AttentionJob{
      BestMathLoops(), BestLoops(), shape, drop, DropoutName(view.attr<std::string>("name")),
      DropBelow(p),    KeptScale(p)};
}

StatusOr<AttentionInputs> AttentionJob::Inputs(const KernelArgs& args) const {
  const float* q = InF32(args, kAttentionQ);
  AttentionInputs in{q,
                     shape.packed ? q : InF32(args, kAttentionK),
                     shape.packed ? q : InF32(args, kAttentionV),
                     {}};
  if (drop && shape.matrices * shape.t > 0) {
    TD_ASSIGN_OR_RETURN(in.words, DropoutWordsOf(args.in[kAttentionPosition], name,
                                                 shape.matrices * shape.t * shape.s));
  }
  return in;
}

void AttentionJob::Mask(const AttentionInputs& in, const WeightBlock& block, float* mask) const {
  TD_REQUIRE(block.columns <= kMaskColumnsMax);
  float ones[kMaskColumnsMax];
  std::fill_n(ones, block.columns, 1.0f);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t at = (block.matrix * shape.t + block.row + r) * shape.s + block.column;
    math.dropout(ones, mask + r * block.columns, block.columns, in.words.key,
                 in.words.first + static_cast<uint64_t>(at), drop_below, drop_scale);
  }
}

}  // namespace tandem::ops
