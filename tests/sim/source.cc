#include "tests/sim/source.h"

#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace tandem::pserver {

using std::chrono::milliseconds;

namespace {

// A record is the number of its slot as text.
class SlotFormat final : public reader::LineFormat {
 public:
  const std::vector<reader::SampleField>& fields() const override { return fields_; }
  bool IsRecord(std::string_view line, bool /*first*/) const override { return !line.empty(); }
  Status Parse(std::span<const std::string_view> lines, const reader::OnBadLine& on_bad,
               std::span<void* const> out) const override {
    for (size_t i = 0; i < lines.size(); ++i) {
      int64_t slot = 0;
      const char* const end = lines[i].data() + lines[i].size();
      if (std::from_chars(lines[i].data(), end, slot).ptr != end) {
        TD_RETURN_IF_ERROR(on_bad(i, InvalidArgument("a record is a number")));
      }
      std::memcpy(static_cast<std::byte*>(out[0]) + i * sizeof(slot), &slot, sizeof(slot));
    }
    return OkStatus();
  }

 private:
  const std::vector<reader::SampleField> fields_ = {{.name = "slot", .desc = {}}};
};

}  // namespace

// The stream as one process reads it.
class SimSource::Log final : public reader::RecordLog {
 public:
  Log(const SimSource& source, std::shared_ptr<SimProcess> process)
      : source_(source), process_(std::move(process)) {}

  Status Begin(const std::string& /*job*/, uint64_t /*step*/) override { return OkStatus(); }
  Status Read(uint64_t step, uint64_t first, uint64_t count, reader::LogLines* lines) override {
    const uint64_t begin = step * static_cast<uint64_t>(source_.trainers_);
    const uint64_t end = begin + static_cast<uint64_t>(source_.trainers_);
    while (source_.arrived_ < end) {
      if (process_->dead()) return Cancelled("the process is dead");
      (void)process_->MakeEvent()->WaitUntil(source_.world_.Now() + milliseconds(5));
    }
    for (uint64_t i = begin + first; i < begin + first + count; ++i) {
      lines->Add(std::to_string(source_.slot_of_(i)), path_, i);
    }
    return OkStatus();
  }
  void EndWaits() override {}
  void AllowWaits() override {}
  int64_t newest_time_ms() const override { return 0; }
  const char* part() const override { return "source"; }
  std::string Describe() const override { return *path_; }

 private:
  const SimSource& source_;
  const std::shared_ptr<SimProcess> process_;
  const std::shared_ptr<const std::string> path_ = std::make_shared<std::string>("records");
};

void SimSource::Start() {
  if (arrived_ == static_cast<uint64_t>(trainers_) * static_cast<uint64_t>(steps_)) return;
  world_.After(world_.Between(milliseconds(0), milliseconds(30)), [this] {
    ++arrived_;
    Start();
  });
}

std::unique_ptr<reader::StreamDataset> SimSource::Open(
    const std::shared_ptr<SimProcess>& process) const {
  reader::StreamDataset::Options options;
  options.global_batch = static_cast<uint64_t>(trainers_);
  options.epoch_steps = static_cast<uint64_t>(steps_);
  return std::make_unique<reader::StreamDataset>(options, std::make_unique<SlotFormat>(),
                                                 std::make_unique<Log>(*this, process));
}

StatusOr<int64_t> SimSource::Read(const reader::StreamDataset& stream, int rank,
                                  uint64_t step) const {
  const auto id =
      static_cast<uint32_t>(step * static_cast<uint64_t>(trainers_) + static_cast<uint64_t>(rank));
  int64_t slot = -1;
  void* const out = &slot;
  TD_RETURN_IF_ERROR(stream.FillEpoch(0, {&id, 1}, {&out, 1}));
  return slot;
}

}  // namespace tandem::pserver
