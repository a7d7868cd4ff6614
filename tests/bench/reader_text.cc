// reader_text: the criteo, csv and libsvm readers on one file each, from opening the file to
// samples in memory. The upper bound is a loop that only finds the ends of the lines.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/bench/report.h"
#include "trainer/reader/criteo.h"
#include "trainer/reader/csv.h"
#include "trainer/reader/libsvm.h"

namespace tandem::bench {
namespace {

constexpr uint64_t kFileBytes = 64 << 20;

// A generator of random numbers for one file.
class Draws {
 public:
  explicit Draws(const char* purpose) : key_(StreamKey(1, purpose)) {}
  // Returns a random number in [0, 1): u^power for a uniform u. Thus values near 0 are more
  // frequent.
  double Skewed(double power) {
    const auto word = Philox(key_, next_++);
    return std::pow((static_cast<double>(word[0]) + 0.5) * 0x1p-32, power);
  }
  int64_t Below(int64_t n, double power = 1) {
    return static_cast<int64_t>(Skewed(power) * static_cast<double>(n));
  }
  bool Chance(double p) { return Skewed(1) < p; }

 private:
  const uint64_t key_;
  uint64_t next_ = 0;
};

// Returns a line like those of Criteo's logs. Numbers are mostly small, categories have 8
// hexadecimal digits, and a tenth of the fields is missing.
std::string CriteoLine(Draws& draws) {
  std::string line = draws.Chance(0.25) ? "1" : "0";
  for (int i = 0; i < 13; ++i) {
    line += '\t';
    if (!draws.Chance(0.15)) line += absl::StrFormat("%d", draws.Below(100000, 6));
  }
  for (int i = 0; i < 26; ++i) {
    line += '\t';
    if (draws.Chance(0.1)) continue;
    const uint64_t value =
        static_cast<uint64_t>(draws.Below(1000000, 4)) * 26 + static_cast<uint64_t>(i);
    line += absl::StrFormat("%08x", static_cast<uint32_t>(value * 0x9e3779b97f4a7c15 >> 32));
  }
  return line + "\n";
}

// Returns a line with six numbers and eight categories, like the lines of the Adult data set.
std::string CsvLine(Draws& draws) {
  std::string line;
  const int64_t ranges[] = {90, 1500000, 17, 100000, 4000, 99};
  for (const int64_t range : ranges) {
    line += absl::StrFormat("%d,", draws.Below(range, range > 2000 && range < 1000000 ? 8 : 1));
  }
  const int64_t sizes[] = {9, 16, 7, 15, 6, 5, 2, 42};
  for (size_t i = 0; i < 8; ++i) {
    line += absl::StrFormat("category-%c%d,", 'a' + static_cast<char>(i), draws.Below(sizes[i], 3));
  }
  return line + (draws.Chance(0.25) ? "high\n" : "low\n");
}

// Returns a line with 39 features out of a million. A third of the features have values other than
// 1.
std::string LibSvmLine(Draws& draws) {
  std::string line = draws.Chance(0.25) ? "1" : "-1";
  for (int64_t i = 0; i < 39; ++i) {
    line += absl::StrFormat(" %d:", i * 25000 + draws.Below(25000, 3));
    line += i % 3 == 0 ? absl::StrFormat("%.4g", draws.Skewed(1)) : "1";
  }
  return line + "\n";
}

constexpr char kCsvNames[] = "n1,n2,n3,n4,n5,n6,c1,c2,c3,c4,c5,c6,c7,c8,pay\n";

struct TextFormat {
  const char* name;
  const char* file;
  const char* header;
  std::string (*line)(Draws& draws);
  StatusOr<reader::TrainAndTest> (*open)(const std::string& path,
                                         const reader::LineReading& reading);
};

StatusOr<reader::TrainAndTest> OpenAsCriteo(const std::string& path,
                                            const reader::LineReading& reading) {
  reader::CriteoOptions options;
  options.files = {.train = {path}, .reading = reading};
  return reader::OpenCriteo(options);
}

StatusOr<reader::TrainAndTest> OpenAsCsv(const std::string& path,
                                         const reader::LineReading& reading) {
  reader::CsvOptions options;
  options.train_path = path;
  options.label_column = "pay";
  options.positive_labels = {"high"};
  options.negative_labels = {"low"};
  for (int i = 1; i <= 6; ++i)
    options.columns.push_back({absl::StrFormat("n%d", i), reader::CsvColumn::kNumeric, 33});
  for (int i = 1; i <= 8; ++i)
    options.columns.push_back({absl::StrFormat("c%d", i), reader::CsvColumn::kVocabulary, 50});
  options.reading = reading;
  return reader::OpenCsv(options);
}

StatusOr<reader::TrainAndTest> OpenAsLibSvm(const std::string& path,
                                            const reader::LineReading& reading) {
  reader::LibSvmOptions options;
  options.files = {.train = {path}, .reading = reading};
  options.ids = 1000000;
  options.features_max = 39;
  return reader::OpenLibSvm(options);
}

constexpr TextFormat kFormats[] = {
    {"criteo", "criteo.tsv", "", CriteoLine, OpenAsCriteo},
    {"csv", "table.csv", kCsvNames, CsvLine, OpenAsCsv},
    {"libsvm", "sparse.libsvm", "", LibSvmLine, OpenAsLibSvm},
};

Status WriteText(const TextFormat& format, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << format.header;
  Draws draws(format.name);
  for (uint64_t bytes = 0; bytes < kFileBytes && out;) {
    const std::string line = format.line(draws);
    out << line;
    bytes += line.size();
  }
  out.close();
  return out ? OkStatus() : DataLoss("%s: cannot be written", path);
}

// Calls `run` repeatedly. Returns the speed in MB/s. Assumes that each call reads the whole file.
template <typename Run>
StatusOr<double> Speed(const std::string& path, double seconds, const Run& run) {
  std::error_code error;
  const auto bytes = static_cast<double>(std::filesystem::file_size(path, error));
  TD_RETURN_IF_ERROR(run());
  double taken = 0, read = 0;
  const Time start = SteadyNow();
  while (taken < seconds) {
    TD_RETURN_IF_ERROR(run());
    read += bytes;
    taken = Seconds(SteadyNow() - start);
  }
  return read / taken / 1e6;
}

class CountedLines final : public reader::LineSink {
 public:
  Status Add(std::string_view) override {
    ++lines_;
    return OkStatus();
  }
  reader::LinePiece Finish() override { return {nullptr, std::exchange(lines_, 0)}; }

 private:
  uint64_t lines_ = 0;
};

Status ReadLinesAlone(const std::string& path, const reader::LineReading& reading) {
  std::vector<std::string> warnings;
  return reader::ReadLines(
             path, reading, [](size_t) { return std::make_unique<CountedLines>(); }, &warnings)
      .status();
}

// Returns the number of samples and the sum of their labels. The benchmark compares the sums of two
// readers to check that both readers read the same data.
StatusOr<std::vector<double>> Sums(const reader::Dataset& data) {
  std::vector<std::vector<char>> one;
  std::vector<void*> out;
  for (const reader::SampleField& field : data.fields()) {
    out.push_back(one.emplace_back(field.desc.bytes()).data());
  }
  double labels = 0;
  for (uint32_t id = 0; id < data.size(); ++id) {
    TD_RETURN_IF_ERROR(data.Fill({&id, 1}, out));
    labels += static_cast<double>(*static_cast<const int64_t*>(out.back()));
  }
  return std::vector<double>{static_cast<double>(data.size()), labels};
}

}  // namespace

StatusOr<Report> ReaderText(const RunOptions& options) {
  if (options.export_dir.empty()) return InvalidArgument("--export_dir=DIR: where the files are");
  const reader::LineReading reading = {.threads = options.threads};
  Report report;
  for (const TextFormat& format : kFormats) {
    const std::string path = options.export_dir + "/" + format.file;
    if (!std::filesystem::exists(path)) TD_RETURN_IF_ERROR(WriteText(format, path));
    const auto read = [&] { return format.open(path, reading).status(); };
    TD_ASSIGN_OR_RETURN(const double speed, Speed(path, options.seconds, read));
    report.Add(std::string(format.name) + "_mb_per_s", speed);
    TD_ASSIGN_OR_RETURN(const reader::TrainAndTest data, format.open(path, reading));
    TD_ASSIGN_OR_RETURN(const auto sums, Sums(*data.train));
    report.Add(std::string(format.name) + "_sums", sums);
  }
  const std::string path = options.export_dir + "/" + kFormats[0].file;
  const auto lines = [&] { return ReadLinesAlone(path, reading); };
  TD_ASSIGN_OR_RETURN(const double speed, Speed(path, options.seconds, lines));
  report.Add("lines_mb_per_s", speed);
  return report;
}

}  // namespace tandem::bench
