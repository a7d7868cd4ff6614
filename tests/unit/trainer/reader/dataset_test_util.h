// Helpers for tests that read all samples of a dataset.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

// Returns the values of one field of all samples, concatenated, as elements of T.
template <typename T>
std::vector<T> ReadField(const Dataset& data, const std::string& name) {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> out;
  size_t wanted = data.fields().size();
  for (size_t f = 0; f < data.fields().size(); ++f) {
    const TensorDesc& desc = data.fields()[f].desc;
    const auto size = static_cast<size_t>(desc.shape.numel()) * SizeOf(desc.dtype);
    bytes.emplace_back(size * data.size());
    if (data.fields()[f].name == name) wanted = f;
  }
  for (auto& field : bytes) out.push_back(field.data());
  std::vector<uint32_t> ids(data.size());
  std::iota(ids.begin(), ids.end(), 0u);
  EXPECT_EQ(data.Fill(ids, out), OkStatus());
  CHECK_LT(wanted, bytes.size()) << "no field " << name;
  const T* values = reinterpret_cast<const T*>(bytes[wanted].data());
  return {values, values + bytes[wanted].size() / sizeof(T)};
}

}  // namespace tandem::reader
