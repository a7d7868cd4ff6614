#include "trainer/reader/text.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "trainer/reader/text_parts.h"

namespace tandem::reader {
namespace {

constexpr int64_t kBytes = 256;  // number of byte tokens; token 256 masks a byte
constexpr int64_t kNotPredicted = -100;
constexpr uint64_t kMaskSeed = 1;
constexpr int64_t kSequenceMax = 1 << 20;

StatusOr<std::string> ReadBytes(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument("%s is a directory, but data.text.file must name a file [TD2001]", path);
  }
  TD_ASSIGN_OR_RETURN(std::ifstream file, OpenTextFile(path));
  return ReadToEnd(path, file);
}

class Windows final : public Dataset {
 public:
  // Makes samples of the bytes [begin, end) of the text. REQUIRES: the range is longer than one
  // sequence.
  Windows(std::shared_ptr<const std::string> text, const TextOptions& options, int64_t begin,
          int64_t end, uint32_t samples_max)
      : text_(std::move(text)), options_(options), begin_(begin) {
    const int64_t samples = (end - begin - 1 - options.sequence) / options.stride + 1;
    size_ = SampleCount(samples, samples_max);
    const TensorDesc desc{DType::kI64, {options.sequence}};
    const int64_t tokens = kBytes + (options.predicted > 0 ? 1 : 0);
    fields_ = {{"ids", desc, tokens}, {"label", desc, kBytes}};
  }

  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    auto* tokens = static_cast<int64_t*>(out[0]);
    auto* labels = static_cast<int64_t*>(out[1]);
    for (const uint32_t id : ids) {
      if (id >= size_)
        return OutOfRange("%s has no sample %d, expected a number below %d", options_.path, id,
                          size_);
      const char* text = text_->data() + begin_ + id * options_.stride;
      for (int64_t i = 0; i < options_.sequence; ++i) {
        *tokens++ = static_cast<unsigned char>(text[i]);
        *labels++ = static_cast<unsigned char>(text[i + 1]);
      }
      if (options_.predicted > 0) Mask(id, tokens - options_.sequence, labels - options_.sequence);
    }
    return OkStatus();
  }
  std::string Describe() const override {
    return absl::StrFormat("%s: %d samples of %d bytes", options_.path, size_, options_.sequence);
  }

 private:
  void Mask(uint32_t id, int64_t* tokens, int64_t* labels) const {
    // Adds the start of this part of the text, so that training and test samples have different
    // random streams.
    const auto sample = static_cast<uint64_t>(begin_) + id;
    const uint64_t key = StreamKey(kMaskSeed, absl::StrFormat("masked:%d", sample));
    const auto order = Permutation(key, static_cast<uint32_t>(options_.sequence));
    std::fill_n(labels, options_.sequence, kNotPredicted);
    for (int64_t i = 0; i < options_.predicted; ++i) {
      const uint32_t at = order[static_cast<size_t>(i)];
      labels[at] = tokens[at];
      const auto [how, byte, unused1, unused2] = Philox(~key, static_cast<uint64_t>(i));
      if (how % 10 < 8) {
        tokens[at] = kBytes;
      } else if (how % 10 == 8) {
        tokens[at] = byte % kBytes;
      }
    }
  }

  const std::shared_ptr<const std::string> text_;
  const TextOptions options_;
  const int64_t begin_;
  uint32_t size_ = 0;
  std::vector<SampleField> fields_;
};

Status Check(const TextOptions& options) {
  const auto check = [](const char* name, int64_t value) {
    if (value >= 1 && value <= kSequenceMax) return OkStatus();
    return InvalidArgument("data.text.%s is %d, expected 1 to %d [TD1104]", name, value,
                           kSequenceMax);
  };
  TD_RETURN_IF_ERROR(check("sequence", options.sequence));
  TD_RETURN_IF_ERROR(check("stride", options.stride));
  if (options.predicted < 0 || options.predicted > options.sequence) {
    return InvalidArgument(
        "data.text.predicted is %d, expected 0 to %d (the value of sequence) [TD1104]",
        options.predicted, options.sequence);
  }
  if (options.test_share > 0 && options.test_share < 1) return OkStatus();
  return InvalidArgument("data.text.test_share is %g, expected a number between 0 and 1 [TD1104]",
                         options.test_share);
}

}  // namespace

StatusOr<TrainAndTest> OpenText(const TextOptions& given) {
  TextOptions options = given;
  if (options.stride == 0) options.stride = options.sequence;
  TD_RETURN_IF_ERROR(Check(options));
  TD_ASSIGN_OR_RETURN(std::string read, ReadBytes(options.path));
  const auto text = std::make_shared<const std::string>(std::move(read));
  const auto bytes = static_cast<int64_t>(text->size());
  const TextParts parts(bytes, options.test_share);
  if (parts.shorter() <= options.sequence) {
    return DataLoss(
        "%s has only %d bytes, which is too few for a sequence of %d bytes in both training and "
        "test data [TD2006]",
        options.path, bytes, options.sequence);
  }
  return parts.Open(options.samples_max, [&](int64_t begin, int64_t end, uint32_t samples_max) {
    return std::make_unique<Windows>(text, options, begin, end, samples_max);
  });
}

}  // namespace tandem::reader
