// Types and helpers for tests that give operators wrong inputs or attributes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/graph/program.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {

using Ints = std::vector<int64_t>;

inline Draw Of(DType dtype, const Shape& shape) { return {.desc = {dtype, shape}}; }

struct Bad {
  const char* what;
  OpCase c;
  const char* says;  // expected part of the error message
  // Whether the expected message has shapes. false for attributes of a wrong type: the type of an
  // attribute is checked before shapes.
  bool names_shapes = true;
};

inline Status Append(const OpCase& c) {
  graph::Program program;
  const ops::Op op = MakeOp(c);
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    for (size_t i = 0; i < op.inputs[slot].size(); ++i) {
      TD_RETURN_IF_ERROR(program.AddVar({.name = op.inputs[slot][i],
                                         .kind = graph::VarKind::kData,
                                         .desc = c.inputs[slot][i].desc}));
    }
  }
  return graph::AppendOp(program, op);
}

inline void ExpectRefused(const Bad& bad) {
  SCOPED_TRACE(std::string(bad.what) + ": " + CaseName(bad.c));
  Status status;
  ASSERT_NO_THROW(status = Append(bad.c));
  ASSERT_FALSE(status.ok()) << "accepted";
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, testing::HasSubstr(bad.c.op));
  EXPECT_THAT(message, testing::HasSubstr(bad.says));
  if (!bad.names_shapes) return;
  for (const auto& slot : bad.c.inputs) {
    for (const Draw& d : slot) EXPECT_THAT(message, testing::HasSubstr(ToString(d.desc)));
  }
}

inline OpCase Make(const std::string& op, std::vector<std::vector<Draw>> inputs,
                   ops::AttrMap attrs = {}) {
  return {.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

}  // namespace tandem::optest
