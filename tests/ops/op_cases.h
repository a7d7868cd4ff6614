// All rows of the test bench, by family.
#pragma once

#include <vector>

#include "tests/ops/op_case.h"

namespace tandem::optest {

std::vector<OpCase> LinearCases();       // fc, matmul
std::vector<OpCase> ImageCases();        // conv2d, pool2d
std::vector<OpCase> NormCases();         // batch_norm and operators fused with it
std::vector<OpCase> ElementwiseCases();  // elementwise_*, relu, scale, sum, mean, reshape, ...
std::vector<OpCase> LossCases();         // softmax_with_cross_entropy, accuracy
std::vector<OpCase> EmbeddingCases();    // lookup_table
std::vector<OpCase> ClickCases();        // sequence_pool, sigmoid_cross_entropy, auc
// Elementwise optimizers with dense gradients, which may be split into slices.
std::vector<OpCase> OptimizerCases();
// The other optimizers: sparse gradients, norms of whole parameters, changes of the gradients
// before the update.
std::vector<OpCase> UpdateCases();
std::vector<OpCase> FusedCases();   // fused_*
std::vector<OpCase> RegimeCases();  // every_nth, adaptive_steps, dgc_*
std::vector<OpCase> DenseCases();   // gelu, sigmoid, tanh, softmax, layer_norm, dropout, ...
std::vector<OpCase> LayoutCases();  // transpose, concat, split, slice, cast
std::vector<OpCase> HalfCases();    // rows of the families above with f16 and bf16
// The type of the oracle's result in that output slot: half_cases.cc knows which slots stay f32.
DType OutputType(const OpCase& c, size_t slot);
// `count` rows with random sizes and attributes that fit together.
std::vector<OpCase> RandomCases(uint64_t seed, int count);

// The families, in the order above, without the random ones.
std::vector<OpCase> AllCases();

}  // namespace tandem::optest
