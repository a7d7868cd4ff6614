#include "trainer/files/safetensors.h"

#include "tests/fuzz/file_target.h"

namespace tandem {
namespace {

bool Accepts(std::string_view input) {
  CpuDevice device;
  const std::span file(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const auto tensors = trainer::ParseSafetensors(file, "file", device);
  CHECK(tensors.ok() || tensors.status().message().find("file") == 0);
  if (!tensors.ok()) return false;
  // Writes an accepted file again; the parser must accept the written file.
  static const TempDir dir;
  CHECK(trainer::WriteSafetensors(dir / "again", tensors->tensors, tensors->metadata).ok());
  const auto again = trainer::ReadSafetensors(dir / "again", device);
  CHECK(again.ok()) << again.status();
  CHECK_EQ(again->tensors.size(), tensors->tensors.size());
  CHECK(again->metadata == tensors->metadata);
  return true;
}

std::string Seed() {
  CpuDevice device;
  const TempDir dir;
  trainer::TensorMap tensors;
  for (const DType dtype : {DType::kF32, DType::kI64, DType::kU8, DType::kBF16}) {
    auto tensor = Tensor::Make({dtype, {2, 3}}, device);
    CHECK(tensor.ok());
    std::memset(tensor->data(), 1, tensor->desc().bytes());
    tensors.emplace(std::string("t") + Name(dtype), *std::move(tensor));
  }
  CHECK(trainer::WriteSafetensors(dir / "file", tensors, {{"step", "3"}}).ok());
  return trainer::ReadFile(dir / "file");
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{Seed()},
          {"__metadata__", "\"dtype\":\"F32\"", "\"shape\":[", "\"data_offsets\":[", "0,", "}"},
          Accepts};
}

}  // namespace tandem
