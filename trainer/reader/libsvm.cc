#include "trainer/reader/libsvm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "trainer/reader/input/dataset_arena.h"
#include "trainer/reader/input/text_values.h"

namespace tandem::reader {
namespace {

constexpr int64_t kFeatureIdsMax = int64_t{1} << 32;
constexpr int64_t kFeaturesMax = 1 << 20;
constexpr int64_t kClassesMax = 1 << 20;
constexpr size_t kFeatureBytes = 6;  // typical size of a short feature, used to reserve memory

struct LibSvmPiece {
  std::vector<uint64_t> ends;    // index after the last feature of each record
  std::vector<uint32_t> labels;  // the label of each record, from 0
  std::pmr::vector<uint32_t> ids;
  std::pmr::vector<float> values;
};

class LibSvmSink final : public LineSink {
 public:
  // `bytes`: size of a piece of the file. The sink stores the records in `memory`.
  LibSvmSink(const LibSvmOptions& options, size_t bytes, DatasetArena* memory)
      : options_(options), memory_(memory) {
    ids_.reserve(bytes / kFeatureBytes + 1);
    values_.reserve(bytes / kFeatureBytes + 1);
  }

  Status Add(std::string_view line) override;
  LinePiece Finish() override;

 private:
  StatusOr<uint32_t> Label(std::string_view text) const;
  Status AddFeatures(std::string_view text);

  const LibSvmOptions& options_;
  DatasetArena* const memory_;
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> labels_, ids_;
  std::vector<float> values_;
};

LinePiece LibSvmSink::Finish() {
  const size_t records = labels_.size();
  LibSvmPiece piece{std::exchange(ends_, {}), std::exchange(labels_, {}), memory_->Keep(ids_),
                    memory_->Keep(values_)};
  return {std::make_shared<LibSvmPiece>(std::move(piece)), records};
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

const char* SkipBlanks(const char* at, const char* end) {
  while (at != end && IsBlank(*at)) ++at;
  return at;
}

// Removes the first word of `text` and the blanks after the word, and returns the word.
std::string_view NextWord(std::string_view& text) {
  const auto blank = std::ranges::find_if(text, IsBlank);
  const std::string_view word(text.begin(), blank);
  text = {SkipBlanks(blank, text.end()), text.end()};
  return word;
}

StatusOr<uint32_t> LibSvmSink::Label(std::string_view text) const {
  const std::optional<double> number = ParseNumber(text);
  if (number.has_value()) {
    const double label = options_.classes == 2 && *number == -1 ? 0 : *number;
    if (label >= 0 && label < static_cast<double>(options_.classes)) {
      const auto whole = static_cast<uint32_t>(label);
      if (static_cast<double>(whole) == label) return whole;
    }
  }
  return DataLoss("the label \"%s\" is not one of the %d classes", std::string(text),
                  options_.classes);
}

// One feature "index:value". `stop`: the address after the feature; nullptr: there is no feature.
struct Feature {
  int64_t index = 0;
  float value = 0;
  size_t digits = 0;  // number of digits of the index in the text
  const char* stop = nullptr;
};

bool EndsWord(const char* at, const char* end) { return at == end || (at < end && IsBlank(*at)); }

Feature ScanFeature(const char* at, const char* end) {
  const uint32_t others = NonDigits(at);
  const auto digits = static_cast<size_t>(std::countr_zero(others));
  if (digits >= 1 && digits <= 8 && at[digits] == ':') {
    const char* const value = at + digits + 1;
    const PlainNumber number = ScanPlainNumber(value, others >> (digits + 1));
    if (number.length > 0 && EndsWord(value + number.length, end)) {
      return {static_cast<int64_t>(ValueOfDigits(at, digits)), static_cast<float>(number.value),
              digits, value + number.length};
    }
  }
  const ScannedIndex index = ScanIndex(at, end);
  if (index.stop == nullptr || index.stop == end || *index.stop != ':') return {};
  const ScannedNumber number = ScanNumber(index.stop + 1, end);
  const auto value = static_cast<float>(number.value);
  if (number.stop == nullptr || !EndsWord(number.stop, end) || !std::isfinite(value)) return {};
  return {index.value, value, static_cast<size_t>(index.stop - at), number.stop};
}

Status LibSvmSink::AddFeatures(std::string_view text) {
  const size_t before = ids_.size();
  const auto buckets = static_cast<uint64_t>(options_.ids - 1);  // number of ids for hashes
  int64_t last = -1;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const Feature feature = ScanFeature(at, end);
    if (feature.stop == nullptr) {
      std::string_view rest(at, static_cast<size_t>(end - at));
      return DataLoss("\"%s\" is not a feature, expected INDEX:VALUE", std::string(NextWord(rest)));
    }
    if (feature.index <= last) {
      return DataLoss("index %d follows index %d, but indices must ascend", feature.index, last);
    }
    last = feature.index;
    if (!options_.hash && feature.index >= options_.ids) {
      return DataLoss("index %d is out of range, because ids is %d", feature.index, options_.ids);
    }
    ids_.push_back(static_cast<uint32_t>(
        options_.hash ? 1 + HashToRange({at, feature.digits}, 0, buckets) : feature.index));
    values_.push_back(feature.value);
    at = SkipBlanks(feature.stop, end);
  }
  const size_t features = ids_.size() - before;
  if (std::cmp_less_equal(features, options_.features_max)) return OkStatus();
  return DataLoss("the record has %d features, but features_max is %d", features,
                  options_.features_max);
}

Status LibSvmSink::Add(std::string_view line) {
  std::string_view text = Trimmed(line.substr(0, line.find('#')));
  if (text.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const uint32_t label, Label(NextWord(text)));
  if (text.starts_with("qid:")) {
    const std::string_view query = NextWord(text);
    const char* const end = query.data() + query.size();
    if (ScanIndex(query.data() + 4, end).stop != end || query.size() == 4) {
      return DataLoss("\"%s\" is not a query id", std::string(query));
    }
  }
  const size_t before = ids_.size();
  const Status status = AddFeatures(text);
  if (!status.ok()) {
    ids_.resize(before);
    values_.resize(before);
    return status;
  }
  labels_.push_back(label);
  ends_.push_back(ids_.size());
  return OkStatus();
}

struct LibSvmRecords {
  DatasetArena memory;  // the memory of all pieces of records
  PieceIndex index;
  std::vector<LibSvmPiece> pieces;
};

std::vector<SampleField> LibSvmFields(const LibSvmOptions& options) {
  const Shape shape{options.features_max};
  return {{"ids", {DType::kI64, shape}, options.ids},
          {"values", {DType::kF32, shape}},
          {"label", {DType::kI64, {1}}, options.classes}};
}

class LibSvm final : public Dataset {
 public:
  LibSvm(std::shared_ptr<const LibSvmRecords> records, const LibSvmOptions& options, uint64_t begin,
         uint64_t size, std::string name)
      : records_(std::move(records)),
        begin_(begin),
        size_(static_cast<uint32_t>(size)),
        width_(static_cast<size_t>(options.features_max)),
        name_(std::move(name)) {
    fields_ = LibSvmFields(options);
  }

  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    auto* to = static_cast<int64_t*>(out[0]);
    auto* values = static_cast<float*>(out[1]);
    auto* labels = static_cast<int64_t*>(out[2]);
    for (const uint32_t id : ids) {
      if (id >= size_)
        return OutOfRange("%s has no sample %d, expected a number below %d", name_, id, size_);
      const auto [at, record] = records_->index.Find(begin_ + id);
      const LibSvmPiece& piece = records_->pieces[at];
      const size_t begin = record == 0 ? 0 : piece.ends[record - 1];
      const size_t features = piece.ends[record] - begin;
      std::copy_n(piece.ids.data() + begin, features, to);
      std::fill(to + features, to + width_, 0);
      std::copy_n(piece.values.data() + begin, features, values);
      std::fill(values + features, values + width_, 0.0f);
      to += width_;
      values += width_;
      *labels++ = piece.labels[record];
    }
    return OkStatus();
  }
  std::string Describe() const override {
    return absl::StrFormat("%s: %d records of up to %d features", name_, size_, width_);
  }

 private:
  const std::shared_ptr<const LibSvmRecords> records_;
  const uint64_t begin_;
  const uint32_t size_;
  const size_t width_;
  const std::string name_;
  std::vector<SampleField> fields_;
};

Status Check(const LibSvmOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return OkStatus();
    return InvalidArgument("%s is %d, expected %d to %d [TD1104]", name, value, min, max);
  };
  TD_RETURN_IF_ERROR(check("ids", options.ids, 2, kFeatureIdsMax));
  TD_RETURN_IF_ERROR(check("features_max", options.features_max, 1, kFeaturesMax));
  return check("classes", options.classes, 2, kClassesMax);
}

class LibSvmLines final : public LineFormat {
 public:
  explicit LibSvmLines(const LibSvmOptions& options)
      : options_(options), fields_(LibSvmFields(options)) {}

  const std::vector<SampleField>& fields() const override { return fields_; }
  bool IsRecord(std::string_view line, bool /*first*/) const override {
    return !Trimmed(line.substr(0, line.find('#'))).empty();
  }
  Status Parse(std::span<const std::string_view> lines, const OnBadLine& on_bad,
               std::span<void* const> out) const override {
    // The label 0 without features, and kLineSlack bytes.
    static constexpr char kEmpty[1 + kLineSlack] = {'0'};
    auto records = std::make_shared<LibSvmRecords>();
    LibSvmSink sink(options_, lines.size() * kFeatureBytes, &records->memory);
    TD_RETURN_IF_ERROR(AddLines(lines, {kEmpty, 1}, on_bad, sink));
    LinePiece piece = sink.Finish();
    records->index.Add(piece.records);
    records->pieces.push_back(std::move(*static_cast<LibSvmPiece*>(piece.data.get())));
    return FillAll(LibSvm(records, options_, 0, piece.records, "the batch"), out);
  }

 private:
  const LibSvmOptions options_;
  const std::vector<SampleField> fields_;
};

}  // namespace

StatusOr<std::unique_ptr<LineFormat>> MakeLibSvmLines(const LibSvmOptions& options) {
  TD_RETURN_IF_ERROR(Check(options));
  return std::make_unique<LibSvmLines>(options);
}

StatusOr<TrainAndTest> OpenLibSvm(const LibSvmOptions& options) {
  TD_RETURN_IF_ERROR(Check(options));
  auto records = std::make_shared<LibSvmRecords>();
  const auto make = [&](size_t bytes) {
    return std::make_unique<LibSvmSink>(options, bytes, &records->memory);
  };
  TD_ASSIGN_OR_RETURN(LineRecords read, ReadLineFiles(options.files, make));
  for (LinePiece& piece : read.pieces) {
    records->index.Add(piece.records);
    records->pieces.push_back(std::move(*static_cast<LibSvmPiece*>(piece.data.get())));
  }
  const auto view = [&](uint64_t begin, uint64_t size, const std::string& name) {
    return std::make_unique<LibSvm>(records, options, begin, size, name);
  };
  return MakeViews(options.files, read.split, std::move(read.warnings), view);
}

}  // namespace tandem::reader
