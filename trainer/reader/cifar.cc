#include "trainer/reader/cifar.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "trainer/reader/text_parts.h"

namespace tandem::reader {
namespace {

constexpr size_t kPlane = size_t{32} * 32, kColours = 3, kRecord = 1 + kColours * kPlane;
constexpr uint8_t kClasses = 10;
constexpr float kMean[kColours] = {0.4914f, 0.4822f, 0.4465f};
constexpr float kStddev[kColours] = {0.2470f, 0.2435f, 0.2616f};

class Cifar10 final : public Dataset {
 public:
  Cifar10(std::string dir, bool train, std::vector<uint8_t> records)
      : dir_(std::move(dir)), train_(train), records_(std::move(records)) {
    for (size_t c = 0; c < kColours; ++c) {
      for (size_t v = 0; v < 256; ++v) {
        scaled_[c][v] = (static_cast<float>(v) / 255.0f - kMean[c]) / kStddev[c];
      }
    }
  }

  uint32_t size() const override { return static_cast<uint32_t>(records_.size() / kRecord); }
  const std::vector<SampleField>& fields() const override { return fields_; }

  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    auto* image = static_cast<float*>(out[0]);
    auto* label = static_cast<int64_t*>(out[1]);
    for (const uint32_t id : ids) {
      if (id >= size())
        return OutOfRange("%s has no sample %d, expected a number below %d", dir_, id, size());
      const uint8_t* record = records_.data() + id * kRecord;
      *label++ = record[0];
      for (size_t p = 0; p < kColours * kPlane; ++p) *image++ = scaled_[p / kPlane][record[1 + p]];
    }
    return OkStatus();
  }

  std::string Describe() const override {
    return absl::StrFormat("%s: %d %s images of CIFAR-10", dir_, size(),
                           train_ ? "training" : "test");
  }

 private:
  const std::string dir_;
  const bool train_;
  const std::vector<uint8_t> records_;
  const std::vector<SampleField> fields_ = {{"img", {DType::kF32, {kColours, 32, 32}}},
                                            {"label", {DType::kI64, {1}}, kClasses}};
  std::array<std::array<float, 256>, kColours> scaled_;  // normalised values, by colour and pixel
};

// Appends the records of the file `path` to `records`.
Status ReadRecords(const std::string& path, std::vector<uint8_t>& records) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return NotFound(
        "%s cannot be opened [TD2001]; hint: download the binary version of CIFAR-10 from "
        "https://www.cs.toronto.edu/~kriz/cifar.html and name its directory with --data=DIR",
        path);
  }
  TD_ASSIGN_OR_RETURN(const std::string text, ReadToEnd(path, file));
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    return DataLoss(
        "%s: offset %d: the size of %d bytes is not a multiple of the record size of %d bytes "
        "[TD2002]",
        path, bytes.size() / kRecord * kRecord, bytes.size(), kRecord);
  }
  for (size_t at = 0; at < bytes.size(); at += kRecord) {
    if (bytes[at] < kClasses) continue;
    return DataLoss("%s: offset %d: the label is %d, but there are only %d classes [TD2004]", path,
                    at, bytes[at], kClasses);
  }
  records.insert(records.end(), bytes.begin(), bytes.end());
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Dataset>> OpenCifar10(const Cifar10Options& options) {
  std::vector<std::string> names = {"test_batch.bin"};
  if (options.train) {
    names.clear();
    for (int i = 1; i <= 5; ++i) names.push_back(absl::StrFormat("data_batch_%d.bin", i));
  }
  std::vector<uint8_t> records;
  for (const std::string& name : names) {
    TD_RETURN_IF_ERROR(ReadRecords(options.dir + "/" + name, records));
  }
  if (options.samples_max > 0) {
    records.resize(std::min(records.size(), options.samples_max * kRecord));
  }
  return std::make_unique<Cifar10>(options.dir, options.train, std::move(records));
}

}  // namespace tandem::reader
