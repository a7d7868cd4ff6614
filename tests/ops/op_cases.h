// Functions that return the rows of the operator test bench, one function per family.
#pragma once

#include <vector>

#include "tests/ops/op_case.h"

namespace tandem::optest {

std::vector<OpCase> LinearCases();  // operators fc, matmul
std::vector<OpCase> ImageCases();   // operators conv2d, pool2d
std::vector<OpCase> NormCases();    // operator batch_norm and operators fused with it
// Operators elementwise_*, relu, scale, sum, mean, reshape, ...
std::vector<OpCase> ElementwiseCases();
std::vector<OpCase> LossCases();       // operators softmax_with_cross_entropy, accuracy
std::vector<OpCase> EmbeddingCases();  // operator lookup_table
std::vector<OpCase> ClickCases();      // operators sequence_pool, sigmoid_cross_entropy, auc
// Elementwise optimizers with dense gradients. Their parameters may be split into slices.
std::vector<OpCase> OptimizerCases();
// Optimizers with sparse gradients, optimizers that use norms of whole parameters, and operators
// that change gradients before the update.
std::vector<OpCase> UpdateCases();
std::vector<OpCase> FusedCases();   // operators fused_*
std::vector<OpCase> RegimeCases();  // operators every_nth, adaptive_steps, dgc_*
// Operators gelu, sigmoid, tanh, softmax, layer_norm, dropout, ...
std::vector<OpCase> DenseCases();
std::vector<OpCase> AttentionCases();  // operator fused_attention
std::vector<OpCase> LayoutCases();     // operators transpose, concat, split, slice, cast
std::vector<OpCase> HalfCases();       // the rows of the families above in f16 and bf16
// Returns the element type of the output slot `slot`. Some slots of 16-bit rows are f32.
DType OutputType(const OpCase& c, size_t slot);
// Returns `count` rows with random sizes, and attributes that are valid for these sizes.
std::vector<OpCase> RandomCases(uint64_t seed, int count);

// Returns the rows of all families in the order above, except the random rows.
std::vector<OpCase> AllCases();

}  // namespace tandem::optest
