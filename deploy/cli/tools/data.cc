#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/nearest.h"
#include "common/os/file_limit.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/input/bad_records.h"
#include "trainer/reader/input/record_io.h"
#include "trainer/reader/open.h"
#include "trainer/reader/open_images.h"
#include "trainer/reader/open_table.h"

namespace tandem::deploy {
namespace {

constexpr char kDataUsage[] =
    "tandem data inspect FILE|JOB          shows the format, the number of records, the first "
    "ones\n                                      and the damaged ones\ntandem data convert "
    "FILE|JOB OUT      writes the records into new files: records of FILE\n                        "
    "              unchanged, records of JOB as tf.train.Example messages\nFILE is a tfrecord or "
    "recordio file, or for inspect a table: .csv, .tsv (also .gz), .npz, .npy,\nor a directory of "
    "images with a directory for each class.\nJOB ends with "
    ".pbtxt, and its data may have any format.\nFields of the job can be set after --: tandem data "
    "inspect job.pbtxt -- --data.dir=DIR\n";

using Json = nlohmann::ordered_json;

bool IsTable(const std::string& path) {
  constexpr std::string_view kEnds[] = {".csv", ".csv.gz", ".tsv",    ".tsv.gz",
                                        ".npz", ".npy",    ".parquet"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return path.ends_with(end); });
}

bool IsJob(const std::string& path) { return path.ends_with(".pbtxt"); }

StatusOr<trainer::EffectiveJob> ReadJob(const std::string& path, const Args& settings) {
  trainer::JobSources sources;
  sources.path = path;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (!setting.starts_with("--") || equals == std::string::npos) {
      return InvalidArgument("\"%s\" is not a setting, expected --field=value after -- [TD1011]",
                             setting);
    }
    sources.overrides.emplace_back(setting.substr(2, equals - 2), setting.substr(equals + 1));
  }
  return trainer::LoadJob(sources, 1);
}

// ---- inspect ------------------------------------------------------------------------------------

struct ShownRange {
  int records = 3;  // number of records that are shown
  int values = 8;   // number of values to show for each feature
};

// The output of a command, as text and as JSON.
struct Report {
  std::string text;
  Json json = Json::object();
  void AddBad(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) text += "bad: " + warning + "\n";
    json["bad"] = warnings;
  }
};

void AddRecord(uint64_t number, const std::string& where, std::string_view record, int values,
               std::string* text, Json* records) {
  *text += absl::StrFormat("record %d%s\n", number, where);
  Json json = {{"record", number}, {"bytes", record.size()}, {"features", nullptr}};
  const auto described = reader::DescribeExample(record, static_cast<size_t>(values));
  if (!described.ok()) {
    *text += absl::StrFormat("  %d bytes, not a tf.train.Example\n", record.size());
  } else {
    json["features"] = Json::object();
    for (const auto line : absl::StrSplit(*described, '\n', absl::SkipEmpty())) {
      *text += absl::StrFormat("  %s\n", line);
      const std::pair<std::string, std::string> feature =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      json["features"][feature.first] = feature.second;
    }
  }
  records->push_back(std::move(json));
}

// Calls `visit` for every record that is not damaged, and adds the damaged records to `bad`. Ends
// at the end of the file, or at a damaged record after which no record can be found. Returns the
// number of calls of `visit`.
StatusOr<uint64_t> VisitRecords(
    reader::RecordScanner& scanner, reader::BadRecords& bad,
    const std::function<Status(uint64_t number, const reader::RecordFrame& frame)>& visit) {
  uint64_t records = 0;
  for (;;) {
    const auto frame = scanner.Next();
    if (!frame.ok()) {
      TD_RETURN_IF_ERROR(bad.Add(std::string(frame.status().message())));
      continue;
    }
    if (!frame->has_value()) return records;
    TD_RETURN_IF_ERROR(visit(records++, **frame));
  }
}

Status InspectFile(const std::string& path, const ShownRange& shown, Report& report) {
  TD_ASSIGN_OR_RETURN(const auto scanner, reader::RecordScanner::Open(path));
  std::vector<std::string> warnings;
  reader::BadRecords bad(path, INT64_MAX, &warnings);
  Json first = Json::array();
  const auto visit = [&](uint64_t number, const reader::RecordFrame& frame) {
    if (number < static_cast<uint64_t>(shown.records)) {
      const std::string where =
          absl::StrFormat(", %d bytes at offset %d", frame.bytes.size(), frame.offset);
      AddRecord(number, where, frame.bytes, shown.values, &report.text, &first);
    }
    return OkStatus();
  };
  TD_ASSIGN_OR_RETURN(const uint64_t records, VisitRecords(*scanner, bad, visit));
  bad.Finish();
  report.text += absl::StrFormat("%s: %s, %d records, %.1f MB\n", path, Name(scanner->format()),
                                 records, static_cast<double>(scanner->file_bytes()) / 1e6);
  report.json = {{"file", path},
                 {"format", Name(scanner->format())},
                 {"records", records},
                 {"bytes", scanner->file_bytes()},
                 {"first", first}};
  report.AddBad(warnings);
  return warnings.empty() ? OkStatus() : DataLoss("%s contains damaged records [TD2002]", path);
}

void AddColumns(const std::vector<std::string>& columns, Report& report) {
  for (const std::string& column : columns) report.text += "  " + column + "\n";
  report.json["columns"] = columns;
}

Status InspectTable(const std::string& path, Report& report) {
  TD_ASSIGN_OR_RETURN(const auto columns, reader::DescribeTable(path));
  report.text = path + ": table\n";
  report.json = {{"file", path}, {"format", "table"}};
  AddColumns(columns, report);
  return OkStatus();
}

Status InspectImages(const std::string& path, Report& report) {
  TD_ASSIGN_OR_RETURN(const auto classes, reader::DescribeImages(path));
  report.text = path + ": images\n";
  report.json = {{"file", path}, {"format", "images"}};
  AddColumns(classes, report);
  return OkStatus();
}

Status InspectPart(const char* part, const reader::Dataset& data, const ShownRange& shown,
                   Report& report) {
  report.text += absl::StrFormat("%s: %s\n", part, data.Describe());
  Json fields = Json::array(), first = fields;
  for (const reader::SampleField& field : data.fields()) {
    const std::string limit = field.limit > 0 ? absl::StrFormat(", below %d", field.limit) : "";
    report.text += absl::StrFormat("  field %s: %s%s\n", field.name, ToString(field.desc), limit);
    fields.push_back(
        {{"field", field.name}, {"desc", ToString(field.desc)}, {"below", field.limit}});
  }
  for (uint32_t id = 0; id < std::min(data.size(), static_cast<uint32_t>(shown.records)); ++id) {
    TD_ASSIGN_OR_RETURN(const std::string record, reader::ExampleOf(data, id));
    AddRecord(id, "", record, shown.values, &report.text, &first);
  }
  report.json["parts"].push_back({{"part", part},
                                  {"data", data.Describe()},
                                  {"samples", data.size()},
                                  {"fields", fields},
                                  {"first", first}});
  return OkStatus();
}

Status InspectJob(const std::string& path, const Args& settings, const ShownRange& shown,
                  Report& report) {
  TD_ASSIGN_OR_RETURN(const trainer::EffectiveJob job, ReadJob(path, settings));
  const DataConfig& config = job.config->data();
  TD_ASSIGN_OR_RETURN(const auto opened, reader::OpenDescribed(config, trainer::JobDir(path)));
  const auto& [data, sizes] = opened;
  report.text = absl::StrFormat("%s: format %s\n", path, config.format());
  report.json = {{"job", path}, {"format", config.format()}, {"parts", Json::array()}};
  TD_RETURN_IF_ERROR(InspectPart("training data", *data.train, shown, report));
  if (data.test != nullptr) {
    TD_RETURN_IF_ERROR(InspectPart("test data", *data.test, {.records = 0}, report));
  }
  std::vector<std::string> columns = data.columns;
  columns.insert(columns.end(), sizes.begin(), sizes.end());
  columns.insert(columns.end(), data.notes.begin(), data.notes.end());
  if (!columns.empty()) AddColumns(columns, report);
  report.AddBad(data.warnings);
  return OkStatus();
}

// ---- convert ------------------------------------------------------------------------------------

struct Conversion {
  std::string out;
  reader::RecordFormat format = reader::RecordFormat::kTfRecord;
  int shards = 1;
  int64_t bad_records_max = 0;
};

// Writes records to several files in turn: record i to file i modulo the number of files.
class Shards {
 public:
  static StatusOr<Shards> Create(const Conversion& to) {
    Shards shards;
    for (int i = 0; i < to.shards; ++i) {
      const std::string path =
          to.shards == 1 ? to.out : absl::StrFormat("%s-%05d-of-%05d", to.out, i, to.shards);
      TD_ASSIGN_OR_RETURN(shards.writers_.emplace_back(),
                          reader::RecordWriter::Create(path, to.format));
      shards.paths_.push_back(path);
    }
    return shards;
  }
  Status Add(std::string_view record) {
    return writers_[records_++ % writers_.size()]->Add(record);
  }
  // Completes all files and returns a report about them.
  StatusOr<Report> Finish() {
    for (const auto& writer : writers_) TD_RETURN_IF_ERROR(writer->Finish());
    Report report;
    report.text = absl::StrFormat("%d records in %s\n", records_, absl::StrJoin(paths_, " "));
    report.json = {{"records", records_}, {"files", paths_}};
    return report;
  }

 private:
  std::vector<std::unique_ptr<reader::RecordWriter>> writers_;
  std::vector<std::string> paths_;
  uint64_t records_ = 0;
};

StatusOr<Report> ConvertFile(const std::string& path, const Conversion& to) {
  TD_ASSIGN_OR_RETURN(const auto scanner, reader::RecordScanner::Open(path));
  TD_ASSIGN_OR_RETURN(Shards shards, Shards::Create(to));
  std::vector<std::string> warnings;
  reader::BadRecords bad(path, to.bad_records_max, &warnings);
  const auto visit = [&](uint64_t, const reader::RecordFrame& frame) {
    return shards.Add(frame.bytes);
  };
  TD_RETURN_IF_ERROR(VisitRecords(*scanner, bad, visit).status());
  bad.Finish();
  for (const std::string& warning : warnings) std::fprintf(stderr, "bad: %s\n", warning.c_str());
  return shards.Finish();
}

// Returns the lines that a job file needs to read the output of the command.
std::string FeatureLines(const reader::Dataset& data) {
  std::string text;
  for (const reader::SampleField& field : data.fields()) {
    text += absl::StrFormat("    feature { name: \"%s\" kind: %s", field.name,
                            field.desc.dtype == DType::kF32 ? "FLOAT" : "INT64");
    for (const int64_t dim : field.desc.shape.dims()) text += absl::StrFormat(" dim: %d", dim);
    if (field.limit > 0) text += absl::StrFormat(" limit: %d", field.limit);
    text += " }\n";
  }
  return text;
}

StatusOr<Report> ConvertJob(const std::string& path, const Args& settings, const std::string& part,
                            const Conversion& to) {
  TD_ASSIGN_OR_RETURN(const trainer::EffectiveJob job, ReadJob(path, settings));
  TD_ASSIGN_OR_RETURN(const reader::TrainAndTest opened,
                      reader::OpenData(job.config->data(), trainer::JobDir(path), true));
  const reader::Dataset* data = part == "test" ? opened.test.get() : opened.train.get();
  TD_ASSIGN_OR_RETURN(Shards shards, Shards::Create(to));
  for (uint32_t id = 0; id < data->size(); ++id) {
    TD_ASSIGN_OR_RETURN(const std::string record, reader::ExampleOf(*data, id));
    TD_RETURN_IF_ERROR(shards.Add(record));
  }
  for (const std::string& warning : opened.warnings) {
    std::fprintf(stderr, "bad: %s\n", warning.c_str());
  }
  TD_ASSIGN_OR_RETURN(Report report, shards.Finish());
  const std::string lines = absl::StrFormat("  format: \"%s\"\n  examples {\n%s  }\n",
                                            Name(to.format), FeatureLines(*data));
  report.text += "a job reads these records with\n" + lines;
  report.json["job_lines"] = lines;
  return report;
}

void Print(const Report& report, bool as_json) {
  const std::string json = report.json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fputs((as_json ? json : report.text).c_str(), stdout);
}

Status Convert(const ParsedArgs& parsed, bool as_json) {
  Conversion to;
  to.out = parsed.positional[2];
  const std::string format = parsed.Get("to", Name(to.format));
  const auto known = reader::RecordFormatOf(format);
  if (!known.has_value()) {
    return InvalidArgument("--to: there is no record format \"%s\" [TD1006]%s", format,
                           OrDidYouMean(format, reader::RecordFormatNames()));
  }
  to.format = *known;
  TD_ASSIGN_OR_RETURN(to.shards, parsed.GetInt("shards", 1, 1, 10000));
  TD_ASSIGN_OR_RETURN(to.bad_records_max, parsed.GetInt("max_bad_records", 0, 0, INT32_MAX));
  const std::string part = parsed.Get("part", "train");
  if (part != "train" && part != "test") {
    return InvalidArgument("--part: expected train or test, got \"%s\" [TD1006]", part);
  }
  const std::string& from = parsed.positional[1];
  TD_ASSIGN_OR_RETURN(const Report report, IsJob(from)
                                               ? ConvertJob(from, parsed.after_dashes, part, to)
                                               : ConvertFile(from, to));
  Print(report, as_json);
  return OkStatus();
}

Status Inspect(const ParsedArgs& parsed, bool as_json) {
  ShownRange shown;
  TD_ASSIGN_OR_RETURN(shown.records, parsed.GetInt("records", shown.records, 0, 1000000));
  TD_ASSIGN_OR_RETURN(shown.values, parsed.GetInt("values", shown.values, 0, 1000000));
  const std::string& path = parsed.positional[1];
  Report report;
  std::error_code error;
  const bool directory = std::filesystem::is_directory(path, error);
  Status status = IsJob(path)     ? InspectJob(path, parsed.after_dashes, shown, report)
                  : IsTable(path) ? InspectTable(path, report)
                  : directory     ? InspectImages(path, report)
                                  : InspectFile(path, shown, report);
  // The undamaged records are shown even if other records are damaged.
  if (status.ok() || !report.json.empty()) Print(report, as_json);
  return status;
}

Status CheckWords(const ParsedArgs& args) {
  if (args.positional.empty()) {
    return InvalidArgument(
        "the subcommand is missing, expected inspect or convert [TD1007]; hint: run tandem data "
        "inspect train.tfrecord");
  }
  const std::string& what = args.positional[0];
  if (what != "inspect" && what != "convert") {
    return InvalidArgument("the subcommand is \"%s\", expected inspect or convert [TD1006]%s", what,
                           OrDidYouMean(what, {"inspect", "convert"}));
  }
  const size_t given = args.positional.size() - 1;
  if (what == "inspect" && given != 1) {
    return InvalidArgument(
        "inspect needs one argument, a FILE or a JOB [TD1007]; hint: run tandem data inspect "
        "job.pbtxt");
  }
  if (what == "convert" && given != 2) {
    return InvalidArgument(
        "convert needs two arguments, a FILE or a JOB, and OUT [TD1007]; hint: run tandem data "
        "convert job.pbtxt out.tfrecord");
  }
  return OkStatus();
}

}  // namespace

int RunData(const Args& args) {
  ParsedArgs parsed;
  int exit_code = 0;
  const std::vector<FlagSpec> flags = {
      {"records", "", "N", "inspect: number of records to show (default 3)"},
      {"values", "", "N", "inspect: number of values of a feature to show (default 8)"},
      {"to", "", "FORMAT", "convert: format of the output, tfrecord (default) or recordio"},
      {"shards", "", "N", "convert: number of files OUT-00000-of-N ... (default 1: OUT)"},
      {"part", "", "PART", "convert JOB: train (default) or test"},
      {"max_bad_records", "", "N",
       "convert FILE: maximum number of damaged records to skip (default 0)"},
      kOutputFlag,
  };
  if (!ParseOrExplain("data", kDataUsage, flags, args, &parsed, &exit_code)) return exit_code;
  const std::string what = parsed.positional.empty() ? "" : parsed.positional[0];
  if (const Status status = CheckWords(parsed); !status.ok()) return Fail("data", status);
  RaiseFileLimit();  // the command opens all shards at the same time
  const StatusOr<bool> as_json = WantsJson(parsed);
  if (!as_json.ok()) return Fail("data", as_json.status());
  const Status status = what == "inspect" ? Inspect(parsed, *as_json) : Convert(parsed, *as_json);
  return status.ok() ? 0 : Fail("data", status);
}

}  // namespace tandem::deploy
