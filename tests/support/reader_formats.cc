#include "tests/support/reader_formats.h"

#include <numeric>

#include "common/base/check.h"
#include "proto/example.pb.h"
#include "tests/support/numpy_files.h"
#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/criteo.h"
#include "trainer/reader/csv.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/input/record_io.h"
#include "trainer/reader/libsvm.h"
#include "trainer/reader/table/table.h"

namespace tandem {
namespace {

// Label of a position that a model does not predict (trainer/reader/text.h).
constexpr int64_t kIgnoredLabel = -100;

reader::LineReading FormatReading() { return {.threads = 1, .bad_records_max = kFormatBadMax}; }

StatusOr<reader::TrainAndTest> OpenAsCriteo(const std::string& path) {
  reader::CriteoOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FormatReading()};
  options.category_ids = 10;
  options.number_ids = 8;
  return reader::OpenCriteo(options);
}

StatusOr<reader::TrainAndTest> OpenAsLibSvm(const std::string& path) {
  reader::LibSvmOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FormatReading()};
  options.ids = 50;
  options.features_max = 4;
  return reader::OpenLibSvm(options);
}

StatusOr<reader::TrainAndTest> OpenAsCsv(const std::string& path) {
  reader::CsvOptions options;
  options.train_path = options.test_path = path;
  options.label_column = "pay";
  options.positive_labels = {"high"};
  options.negative_labels = {"low"};
  options.columns = {{"age", reader::CsvColumn::kNumeric, 4},
                     {"job", reader::CsvColumn::kVocabulary, 3},
                     {"city", reader::CsvColumn::kHash, 5}};
  options.reading = FormatReading();
  return reader::OpenCsv(options);
}

StatusOr<reader::TrainAndTest> OpenAsTable(const std::string& path) {
  reader::TableOptions options;
  options.files = options.test_files = {path};
  options.columns = {{"y", reader::ColumnKind::kLabel}, {"w", reader::ColumnKind::kWeight}};
  options.standardise = options.missing_indicator = true;
  options.bad_rows_max = kFormatBadMax;
  return reader::OpenTable(options);
}

StatusOr<reader::TrainAndTest> OpenAsExamples(const std::string& path) {
  reader::ExampleOptions options;
  options.files = {.train = {path}, .test_share = 0.3, .reading = FormatReading()};
  options.features = {{"x", "", reader::ExampleFeature::kFloat, {2}},
                      {"label", "", reader::ExampleFeature::kInt64, {1}, 10}};
  return reader::OpenExamples(options);
}

std::string ExampleOf(int64_t label) {
  pb::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (int k = 0; k < 2; ++k) features["x"].mutable_float_list()->add_value(k + 0.5f);
  features["label"].mutable_int64_list()->add_value(label);
  return example.SerializeAsString();
}

std::string ExampleFile(reader::RecordFormat format) {
  const TempDir dir;
  auto writer = reader::RecordWriter::Create(dir / "file", format);
  CHECK(writer.ok()) << writer.status();
  for (int i = 0; i < 8; ++i) CHECK((*writer)->Add(ExampleOf(i)).ok());
  CHECK((*writer)->Finish().ok());
  return trainer::ReadFile(dir / "file");
}

std::string CriteoLines() {
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += std::to_string(i % 2);
    for (int c = 0; c < 13; ++c) text += c % 4 == i % 4 ? "\t" : "\t" + std::to_string(c * i - 2);
    for (int c = 0; c < 26; ++c) text += c % 5 == i % 5 ? "\t" : "\t68fd1e6" + std::to_string(c);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string ValidExample() { return ExampleOf(2); }

std::vector<ReaderFormat> ReaderFormats() {
  return {
      {"criteo",
       CriteoLines(),
       {"\t", "\t\t\t", "\n", "1\t", "-1e309", "\r\n", "\xff", "0x", "nan"},
       OpenAsCriteo},
      {"libsvm",
       "1 1:2 5:3.5 7:-1\n0 qid:3 2:1 # x\n-1 1:1e-3\n+1 3:1 4:1 5:1 6:1\n",
       {":", " 9:9", "#", "qid:", "\n", "1e999", "-", "99999999999999999999", "\t", "\r", "nan"},
       OpenAsLibSvm},
      {"csv",
       "age,job,city,pay\n10,smith,Rome,low\n20,cook,Oslo,high\n?,cook,,low\n-1.5,x,y,high\n"
       "\"5\", \"a, \"\"b\"\"\" ,y,\"low\"\n",
       {",", "\"", "\n", "?", "high", "low", "1e999", "\r\n", "age,job,city,pay\n", "\xff", "nan"},
       OpenAsCsv},
      {"table",
       "age,when,city,w,y\n10,2026-01-01,Rome,1,a\n20,2026-01-02T03:04:05Z,Oslo,2,b\n"
       "?,,\"x, \"\"y\"\"\nz\",0.5,a\n-1.5,NA,,1e-3,b\n",
       {",", "\"", "\n", "?", "NA", "1e999", "\r\n", "age,when,city,w,y\n", "\xff", "nan", "-",
        "2026-13-01", "T25:00"},
       OpenAsTable},
      {"npz",
       Zip({{"x.npy", Npy<float>("<f4", "(2, 2)", {1, 2, 3, 4})},
            {"w.npy", Npy<double>("<f8", "(2,)", {1, 0.5})},
            {"y.npy", Npy<int64_t>("<i8", "(2, 1)", {0, 1})}},
           false),
       {"PK\x01\x02", "\xff\xff\xff\xff", "<i8", "(2,)"},
       OpenAsTable},
      {"tfrecord",
       ExampleFile(reader::RecordFormat::kTfRecord),
       {"\x01", "\xff\xff\xff\xff", "label", "\x7f"},
       OpenAsExamples},
      {"recordio",
       ExampleFile(reader::RecordFormat::kRecordIo),
       {"\x01", "\xff\xff\xff\xff", "\x04\x03\x02\x01", "label"},
       OpenAsExamples},
  };
}

ReaderFormat ReaderFormatOf(const std::string& name) {
  for (const ReaderFormat& format : ReaderFormats()) {
    if (format.name == name) return format;
  }
  LOG(FATAL) << "no format " << name;
}

std::string FaultOf(const reader::Dataset& data) {
  std::vector<std::vector<char>> bytes;
  std::vector<void*> out;
  for (const reader::SampleField& field : data.fields()) {
    out.push_back(bytes.emplace_back(field.desc.bytes() * data.size()).data());
  }
  std::vector<uint32_t> samples(data.size());
  std::iota(samples.begin(), samples.end(), 0u);
  if (const Status status = data.Fill(samples, out); !status.ok())
    return std::string(status.message());
  for (size_t f = 0; f < out.size(); ++f) {
    const reader::SampleField& field = data.fields()[f];
    if (field.desc.dtype != DType::kI64 || field.limit == 0) continue;
    const auto* ids = static_cast<const int64_t*>(out[f]);
    for (size_t i = 0; i < bytes[f].size() / sizeof(int64_t); ++i) {
      const bool left_out = field.name == "label" && ids[i] == kIgnoredLabel;
      if ((ids[i] >= 0 && ids[i] < field.limit) || left_out) continue;
      return absl::StrFormat("%s %d is not in [0, %d)", field.name, ids[i], field.limit);
    }
  }
  return "";
}

}  // namespace tandem
