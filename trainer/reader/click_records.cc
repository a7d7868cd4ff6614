#include "trainer/reader/click_records.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace tandem::reader {

int64_t ClickColumns::all_ids() const {
  return std::accumulate(ids.begin(), ids.end(), int64_t{0});
}

ClickRecords::ClickRecords(ClickColumns columns) : columns_(std::move(columns)) {
  int64_t base = 0;
  for (const int64_t ids : columns_.ids) {
    base_.push_back(base);
    base += ids;
  }
}

std::vector<SampleField> ClickRecords::FieldsOf(const ClickColumns& columns) {
  const auto ids = static_cast<int64_t>(columns.ids.size());
  std::vector<SampleField> fields = {{"ids", {DType::kI64, {ids}}, columns.all_ids()}};
  if (columns.dense > 0) {
    fields.push_back({"dense", {DType::kF32, {static_cast<int64_t>(columns.dense)}}});
  }
  fields.push_back({"label", {DType::kI64, {1}}, 2});
  return fields;
}

void ClickRecords::Add(ClickPiece piece) {
  CHECK_EQ(piece.ids.size(), piece.labels.size() * columns_.ids.size());
  CHECK_EQ(piece.dense.size(), piece.labels.size() * columns_.dense);
  index_.Add(piece.labels.size());
  pieces_.push_back(std::move(piece));
}

class ClickView final : public Dataset {
 public:
  ClickView(std::shared_ptr<const ClickRecords> records, uint64_t begin, uint64_t size,
            std::string name)
      : records_(std::move(records)),
        begin_(begin),
        size_(static_cast<uint32_t>(size)),
        name_(std::move(name)) {
    fields_ = ClickRecords::FieldsOf(records_->columns_);
  }

  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    const size_t columns = records_->columns_.ids.size(), numbers = records_->columns_.dense;
    const int64_t* const base = records_->base_.data();
    auto* to = static_cast<int64_t*>(out[0]);
    auto* dense = numbers > 0 ? static_cast<float*>(out[1]) : nullptr;
    auto* labels = static_cast<int64_t*>(out.back());
    for (const uint32_t id : ids) {
      if (id >= size_)
        return OutOfRange("%s has no sample %d, expected a number below %d", name_, id, size_);
      const auto [at, record] = records_->index_.Find(begin_ + id);
      const ClickPiece& piece = records_->pieces_[at];
      const uint32_t* from = piece.ids.data() + record * columns;
      for (size_t c = 0; c < columns; ++c) to[c] = base[c] + from[c];
      to += columns;
      if (numbers > 0) dense = std::copy_n(piece.dense.data() + record * numbers, numbers, dense);
      *labels++ = piece.labels[record];
    }
    return OkStatus();
  }
  std::string Describe() const override {
    const ClickColumns& columns = records_->columns_;
    std::string text =
        absl::StrFormat("%s: %d records of %d columns", name_, size_, columns.ids.size());
    if (columns.dense > 0) text += absl::StrFormat(" and %d numbers", columns.dense);
    return text;
  }

 private:
  const std::shared_ptr<const ClickRecords> records_;
  const uint64_t begin_;
  const uint32_t size_;
  const std::string name_;
  std::vector<SampleField> fields_;
};

std::unique_ptr<Dataset> ClickRecords::View(std::shared_ptr<const ClickRecords> records,
                                            uint64_t begin, uint64_t size, std::string name) {
  CHECK(size > 0 && begin + size <= records->size());
  return std::make_unique<ClickView>(std::move(records), begin, size, std::move(name));
}

}  // namespace tandem::reader
