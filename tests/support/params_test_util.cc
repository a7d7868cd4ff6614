#include "tests/support/params_test_util.h"

#include <cmath>
#include <filesystem>

#include "gtest/gtest.h"

namespace tandem {

trainer::TensorMap SavedParams(const std::string& dir, Device& device) {
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (!entry.is_directory()) continue;
    auto file = trainer::ReadSafetensors(entry.path() / "model.safetensors", device);
    EXPECT_TRUE(file.ok()) << file.status();
    if (file.ok()) return file->tensors;
  }
  ADD_FAILURE() << "no checkpoint in " << dir;
  return {};
}

double Distance(const trainer::TensorMap& a, const trainer::TensorMap& b) {
  double difference = 0, norm = 0;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) {
    const auto x = a.at(name).span<float>(), y = tensor.span<float>();
    for (size_t i = 0; i < y.size(); ++i) {
      difference += std::pow(double{x[i]} - double{y[i]}, 2);
      norm += std::pow(double{y[i]}, 2);
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace tandem
