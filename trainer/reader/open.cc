#include "trainer/reader/open.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/nearest.h"
#include "proto/job.pb.h"
#include "trainer/reader/cifar.h"
#include "trainer/reader/criteo.h"
#include "trainer/reader/csv.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/images/image_list.h"
#include "trainer/reader/input/sampler.h"
#include "trainer/reader/libsvm.h"
#include "trainer/reader/mnist.h"
#include "trainer/reader/open_images.h"
#include "trainer/reader/open_table.h"
#include "trainer/reader/skipgram.h"
#include "trainer/reader/synthetic.h"
#include "trainer/reader/text.h"

namespace tandem::reader {
namespace {

StatusOr<TrainAndTest> Mnist(const DataConfig& config, const std::string& dir, bool with_test) {
  TrainAndTest data;
  MnistOptions files;
  files.dir = dir;
  files.samples_max = static_cast<uint32_t>(config.train_samples_max());
  TD_ASSIGN_OR_RETURN(data.train, OpenMnist(files));
  files.train = false;
  files.samples_max = 0;
  if (!with_test) return data;
  TD_ASSIGN_OR_RETURN(data.test, OpenMnist(files));
  return data;
}

CsvColumn::Kind KindOf(const CsvColumnConfig& column) {
  switch (column.kind()) {
    case CsvColumnConfig::HASH:
      return CsvColumn::kHash;
    case CsvColumnConfig::NUMERIC:
      return CsvColumn::kNumeric;
    default:
      return CsvColumn::kVocabulary;
  }
}

LineReading ReadingOf(const DataConfig& config) {
  return {.threads = config.reader_threads(), .bad_records_max = config.max_bad_records()};
}

// Returns the files of a format whose configuration has train_file, test_file and test_share.
template <typename Config>
RecordFiles FilesOf(const DataConfig& data, const Config& config, const std::string& dir,
                    bool with_test) {
  RecordFiles files;
  for (const std::string& name : config.train_file())
    files.train.push_back(absl::StrCat(dir, "/", name));
  for (const std::string& name : config.test_file()) {
    if (with_test) files.test.push_back(absl::StrCat(dir, "/", name));
  }
  files.test_share = config.test_share();
  files.samples_max = static_cast<uint32_t>(data.train_samples_max());
  files.reading = ReadingOf(data);
  return files;
}

Status NoTestData(const std::string& format, const char* fields) {
  return InvalidArgument(
      "data.%s has no test data, which the evaluation at the end of the job needs [TD1111]; hint: "
      "set %s",
      format, fields);
}

StatusOr<TrainAndTest> Opened(const char* format, StatusOr<TrainAndTest> data, bool with_test) {
  if (!data.ok()) return Annotate(data.status(), std::string("data.") + format);
  if (with_test && data->test == nullptr) return NoTestData(format, "test_file or test_share");
  return data;
}

// Returns the options of format "criteo" without files.
StatusOr<CriteoOptions> CriteoOptionsOf(const DataConfig& config) {
  CriteoOptions options;
  TD_ASSIGN_OR_RETURN(options.separator,
                      SeparatorOf("data.criteo.separator", config.criteo().separator()));
  options.category_ids = config.criteo().category_ids();
  options.number_ids = config.criteo().number_ids();
  options.dense = config.criteo().numbers() == CriteoConfig::DENSE;
  return options;
}

StatusOr<TrainAndTest> Criteo(const DataConfig& config, const std::string& dir, bool with_test) {
  TD_ASSIGN_OR_RETURN(CriteoOptions options, CriteoOptionsOf(config));
  options.files = FilesOf(config, config.criteo(), dir, with_test);
  return Opened("criteo", OpenCriteo(options), with_test);
}

// Returns the options of format "libsvm" without files.
LibSvmOptions LibSvmOptionsOf(const DataConfig& config) {
  LibSvmOptions options;
  options.ids = config.libsvm().ids();
  options.hash = config.libsvm().hash();
  options.features_max = config.libsvm().features_max();
  options.classes = config.libsvm().classes();
  return options;
}

StatusOr<TrainAndTest> LibSvm(const DataConfig& config, const std::string& dir, bool with_test) {
  LibSvmOptions options = LibSvmOptionsOf(config);
  options.files = FilesOf(config, config.libsvm(), dir, with_test);
  return Opened("libsvm", OpenLibSvm(options), with_test);
}

ExampleFeature::Kind KindOf(const ExampleFeatureConfig& feature) {
  switch (feature.kind()) {
    case ExampleFeatureConfig::INT64:
      return ExampleFeature::kInt64;
    case ExampleFeatureConfig::BYTES:
      return ExampleFeature::kBytes;
    default:
      return ExampleFeature::kFloat;
  }
}

// Opens files of tf.train.Example messages. The first bytes of a file determine its format,
// tfrecord or recordio.
StatusOr<TrainAndTest> Examples(const DataConfig& config, const std::string& dir, bool with_test) {
  ExampleOptions options;
  options.files = FilesOf(config, config.examples(), dir, with_test);
  for (const ExampleFeatureConfig& feature : config.examples().feature()) {
    options.features.push_back({feature.name(),
                                feature.field(),
                                KindOf(feature),
                                {feature.dim().begin(), feature.dim().end()},
                                feature.limit(),
                                feature.scale()});
  }
  return Opened("examples", OpenExamples(options), with_test);
}

// Reads one value per colour channel into `out`. If `values` is empty, `out` stays unchanged.
Status Channels(const char* field, const google::protobuf::RepeatedField<float>& values,
                std::array<float, 3>& out) {
  if (values.empty()) return OkStatus();
  if (values.size() != 3) {
    return InvalidArgument("data.images.%s has %d values, expected 3 [TD1104]", field,
                           values.size());
  }
  std::copy(values.begin(), values.end(), out.begin());
  return OkStatus();
}

StatusOr<TrainAndTest> Images(const DataConfig& config, const std::string& dir, bool with_test) {
  return OpenJobImages(config, dir, with_test, /*raw=*/false);
}

StatusOr<TrainAndTest> CsvFiles(const DataConfig& config, const std::string& dir, bool with_test) {
  const CsvConfig& csv = config.csv();
  CsvOptions options;
  options.train_path = dir + "/" + csv.train_file();
  if (with_test) options.test_path = dir + "/" + csv.test_file();
  TD_ASSIGN_OR_RETURN(options.separator, SeparatorOf("data.csv.separator", csv.separator()));
  options.missing = csv.missing();
  options.label_column = csv.label_column();
  options.positive_labels = {csv.positive_label().begin(), csv.positive_label().end()};
  options.negative_labels = {csv.negative_label().begin(), csv.negative_label().end()};
  options.reading = ReadingOf(config);
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  for (const CsvColumnConfig& column : csv.column()) {
    options.columns.push_back({column.name(), KindOf(column), column.ids()});
  }
  return OpenCsv(options);
}

StatusOr<TrainAndTest> SkipGramText(const DataConfig& config, const std::string& dir, bool) {
  const SkipGramConfig& given = config.skipgram();
  SkipGramOptions options;
  options.path = dir + "/" + given.file();
  options.vocabulary = given.vocabulary();
  options.window = given.window();
  options.negatives = given.negatives();
  options.test_share = given.test_share();
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  return OpenSkipGram(options);
}

StatusOr<TrainAndTest> Cifar(const DataConfig& config, const std::string& dir, bool with_test) {
  TrainAndTest data;
  const auto samples_max = static_cast<uint32_t>(config.train_samples_max());
  TD_ASSIGN_OR_RETURN(data.train, OpenCifar10({.dir = dir, .samples_max = samples_max}));
  if (!with_test) return data;
  TD_ASSIGN_OR_RETURN(data.test, OpenCifar10({.dir = dir, .train = false}));
  return data;
}

StatusOr<TrainAndTest> MadeUp(const DataConfig& config, const std::string&, bool with_test) {
  const SyntheticConfig& given = config.synthetic();
  SyntheticOptions options;
  if (given.image_size() > 0) options.image = {given.image().begin(), given.image().end()};
  options.classes = given.classes();
  options.seed = given.seed();
  const auto samples = [](int64_t n) {
    return static_cast<uint32_t>(std::clamp<int64_t>(n, 0, UINT32_MAX));
  };
  options.samples = samples(given.samples());
  if (config.train_samples_max() > 0) {
    options.samples = std::min(options.samples, samples(config.train_samples_max()));
  }
  TrainAndTest data;
  TD_ASSIGN_OR_RETURN(data.train, OpenSynthetic(options));
  options.samples = samples(given.test_samples());
  options.train = false;
  if (!with_test) return data;
  TD_ASSIGN_OR_RETURN(data.test, OpenSynthetic(options));
  return data;
}

StatusOr<TrainAndTest> PlainText(const DataConfig& config, const std::string& dir, bool) {
  TextOptions options;
  options.path = dir + "/" + config.text().file();
  options.sequence = config.text().sequence();
  options.stride = config.text().stride();
  options.test_share = config.text().test_share();
  options.predicted = config.text().predicted();
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  return OpenText(options);
}

StatusOr<TrainAndTest> Table(const DataConfig& config, const std::string& dir, bool with_test) {
  return OpenJobTable(config, dir, with_test, /*memory=*/nullptr);
}

struct FormatRow {
  const char* name;
  StatusOr<TrainAndTest> (*open)(const DataConfig& config, const std::string& dir, bool with_test);
  const char* fields;  // names of the fields, separated by spaces; "": the job names the fields
};
constexpr FormatRow kFormats[] = {{"mnist", Mnist, "img label"},
                                  {"csv", CsvFiles, "ids label"},
                                  {"skipgram", SkipGramText, "center target label"},
                                  {"text", PlainText, "ids label"},
                                  {"cifar10", Cifar, "img label"},
                                  {"synthetic", MadeUp, "img label"},
                                  {"criteo", Criteo, "ids label"},
                                  {"libsvm", LibSvm, "ids values label"},
                                  {"tfrecord", Examples, ""},
                                  {"recordio", Examples, ""},
                                  {"images", Images, "img label"},
                                  {"table", Table, ""}};

}  // namespace

std::vector<std::string> DataFormats() {
  std::vector<std::string> names;
  for (const FormatRow& row : kFormats) names.emplace_back(row.name);
  return names;
}

Status CheckTestData(const DataConfig& config) {
  if (config.has_stream()) return OkStatus();
  const auto lacks = [](const auto& files) {
    return files.test_file().empty() && files.test_share() == 0;
  };
  const std::string& format = config.format();
  const bool messages = format == "tfrecord" || format == "recordio";
  if ((format == "criteo" && lacks(config.criteo())) ||
      (format == "libsvm" && lacks(config.libsvm())) || (messages && lacks(config.examples()))) {
    return NoTestData(messages ? "examples" : format, "test_file or test_share");
  }
  if (format == "csv" && config.csv().test_file().empty()) return NoTestData(format, "test_file");
  if (format == "images" && config.images().has_folder()) {
    const bool lacks_test =
        config.images().test_folder().empty() && config.images().split().empty();
    return lacks_test ? NoTestData(format, "test_folder or split") : OkStatus();
  }
  if (format == "images" && config.images().test_list().empty()) {
    return NoTestData(format, "test_list");
  }
  if (format == "table" && config.table().test_file().empty() && config.table().split().empty()) {
    return NoTestData(format, "test_file or split");
  }
  return OkStatus();
}

std::vector<std::string> FieldNames(const DataConfig& config) {
  const std::string& format = config.format();
  if (format == "tfrecord" || format == "recordio") {
    std::vector<std::string> names;
    for (const ExampleFeatureConfig& feature : config.examples().feature()) {
      names.push_back(feature.field().empty() ? feature.name() : feature.field());
    }
    return names;
  }
  if (format == "criteo" && config.criteo().numbers() == CriteoConfig::DENSE) {
    return {"ids", "dense", "label"};
  }
  for (const FormatRow& row : kFormats) {
    if (format == row.name) return absl::StrSplit(row.fields, ' ', absl::SkipEmpty());
  }
  return {};
}

StatusOr<std::unique_ptr<LineFormat>> MakeLineFormat(const DataConfig& config) {
  if (config.format() == "libsvm") return MakeLibSvmLines(LibSvmOptionsOf(config));
  if (config.format() == "criteo") {
    TD_ASSIGN_OR_RETURN(const CriteoOptions options, CriteoOptionsOf(config));
    return MakeCriteoLines(options);
  }
  return Unimplemented(
      "data.stream is not implemented for format \"%s\" [TD1109]; hint: use criteo or libsvm",
      config.format());
}

StatusOr<char> SeparatorOf(const char* field, const std::string& separator) {
  if (separator.size() != 1) {
    return InvalidArgument("%s is \"%s\", expected one character [TD1104]", field, separator);
  }
  const char c = separator[0];
  if (c != '"' && c != '\n' && c != '\r') return c;
  return InvalidArgument("%s is a quote or the end of a line, expected another character [TD1104]",
                         field);
}

StatusOr<ImageListOptions> ImageOptionsOf(const DataConfig& config, const std::string& dir) {
  const ImagesConfig& given = config.images();
  ImageListOptions options;
  options.list = dir + "/" + given.train_list();
  options.root = dir;
  options.classes = given.classes();
  options.size = given.size();
  options.nhwc = given.layout() == ImagesConfig::NHWC;
  options.area_min = given.area_min();
  options.area_max = given.area_max();
  options.flip = given.flip();
  // OpenImages() rejects a size outside this range.
  const auto size = std::clamp<int64_t>(given.size(), 0, INT32_MAX);
  options.resize = given.has_resize() ? given.resize() : (size * 8 + 3) / 7;
  options.seed = given.seed();
  TD_RETURN_IF_ERROR(Channels("mean", given.mean(), options.mean));
  TD_RETURN_IF_ERROR(Channels("stddev", given.stddev(), options.stddev));
  options.threads = config.reader_threads();
  options.bad_records_max = config.max_bad_records();
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  return options;
}

std::string DataDir(const DataConfig& config, const std::string& job_dir) {
  const bool relative = !config.dir().empty() && config.dir()[0] != '/';
  return relative ? job_dir + config.dir() : config.dir();
}

StatusOr<TrainAndTest> OpenData(const DataConfig& config, const std::string& job_dir,
                                bool with_test, bool raw_images) {
  const std::string dir = DataDir(config, job_dir);
  if (config.has_stream()) {
    return Unimplemented("the records of data.stream can only be read by a job's steps [TD1109]");
  }
  if (with_test) TD_RETURN_IF_ERROR(CheckTestData(config));
  if (raw_images && config.format() == "images") return OpenJobImages(config, dir, with_test, true);
  for (const FormatRow& row : kFormats) {
    if (config.format() != row.name) continue;
    TD_ASSIGN_OR_RETURN(TrainAndTest data, row.open(config, dir, with_test));
    // Discards test data that was not requested, because some formats always divide the data.
    if (!with_test) data.test = nullptr;
    return data;
  }
  return InvalidArgument("unknown data.format \"%s\" [TD2005]%s", config.format(),
                         OrDidYouMean(config.format(), DataFormats()));
}

StatusOr<std::unique_ptr<Prefetcher>> OpenReader(const JobConfig& config, const Dataset& dataset,
                                                 const ReadShare& share, Device& device) {
  SamplerOptions sampling;
  sampling.samples = dataset.size();
  sampling.global_batch = static_cast<uint32_t>(share.global_batch);
  sampling.ranks = static_cast<uint32_t>(share.ranks);
  sampling.rank = static_cast<uint32_t>(share.rank);
  sampling.shuffle = config.data().shuffle() && !config.data().has_stream();
  sampling.seed = config.seed();
  sampling.remainder = config.data().remainder() == DataConfig::DROP   ? Remainder::kDrop
                       : config.data().remainder() == DataConfig::JOIN ? Remainder::kJoin
                                                                       : Remainder::kPad;
  TD_ASSIGN_OR_RETURN(const Sampler sampler, Sampler::Make(sampling));
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  // Only a separate thread can wait for the records of a stream while the job is stopped.
  const bool ahead = flags.use_double_buffer() || config.data().has_stream();
  const ReadMode mode = flags.reader_queue_speed_test_mode() ? ReadMode::kRepeat
                        : ahead                              ? ReadMode::kAhead
                                                             : ReadMode::kOnDemand;
  return Prefetcher::Make(dataset, sampler, config.data().queue_capacity(), device, mode,
                          config.strategy().batch_merge_repeats());
}

}  // namespace tandem::reader
