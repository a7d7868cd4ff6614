#include "trainer/reader/open_images.h"

#include <utility>

#include "proto/job.pb.h"
#include "trainer/reader/images/image_folder.h"
#include "trainer/reader/images/image_list.h"
#include "trainer/reader/open.h"

namespace tandem::reader {
namespace {

StatusOr<TrainAndTest> Lists(const DataConfig& config, ImageListOptions options,
                             const std::string& dir, bool with_test) {
  TrainAndTest data;
  TD_ASSIGN_OR_RETURN(data.train, OpenImageList(options, &data.warnings));
  if (!with_test) return data;
  options.list = dir + "/" + config.images().test_list();
  options.random = false;
  options.samples_max = 0;
  TD_ASSIGN_OR_RETURN(data.test, OpenImageList(options, &data.warnings));
  return data;
}

// Returns INVALID_ARGUMENT if the job mixes the fields of lists with those of a directory.
Status CheckSources(const ImagesConfig& given) {
  const std::pair<const char*, bool> of_lists[] = {{"train_list", given.has_train_list()},
                                                   {"test_list", given.has_test_list()}};
  for (const auto& [field, set] : of_lists) {
    if (!set || !given.has_folder()) continue;
    return InvalidArgument(
        "data.images sets folder and %s, expected a directory or lists [TD1108]; hint: remove one",
        field);
  }
  const std::pair<const char*, bool> of_folders[] = {{"test_folder", given.has_test_folder()},
                                                     {"split", given.has_split()},
                                                     {"split_seed", given.has_split_seed()},
                                                     {"evaluate", given.has_evaluate()}};
  for (const auto& [field, set] : of_folders) {
    if (!set || given.has_folder()) continue;
    return InvalidArgument("data.images.%s has no effect without data.images.folder [TD1107]",
                           field);
  }
  return OkStatus();
}

// Returns the path of the directory `name`, which is relative to `dir`.
std::string InDir(const std::string& dir, const std::string& name) {
  if (name.starts_with('/')) return name;
  return name == "." ? dir : dir + "/" + name;
}

StatusOr<TrainAndTest> Folder(const DataConfig& config, const ImageListOptions& images,
                              const std::string& dir, bool with_test, ImageSizes* sizes) {
  const ImagesConfig& given = config.images();
  ImageFolderOptions options;
  options.sizes = sizes;
  options.directory = InDir(dir, given.folder());
  if (!given.test_folder().empty()) options.test_directory = InDir(dir, given.test_folder());
  TD_ASSIGN_OR_RETURN(options.split, ParseSplit("data.images.split", given.split(),
                                                !options.test_directory.empty()));
  options.split_seed = given.split_seed();
  options.evaluate_validation = given.evaluate() == TableConfig::VALIDATION;
  if (options.evaluate_validation && options.split[1] == 0) {
    return InvalidArgument(
        "data.images.evaluate is VALIDATION, but data.images.split has no share for validation "
        "[TD1108]");
  }
  options.samples_max = static_cast<uint32_t>(config.train_samples_max());
  TD_ASSIGN_OR_RETURN(TrainAndTest data, OpenImageFolder(options, images, with_test));
  const auto found = static_cast<int64_t>(data.classes.size());
  if (given.has_classes() && given.classes() != found) {
    return InvalidArgument(
        "data.images.classes is %d, but %s has %d classes [TD2004]; hint: remove classes",
        given.classes(), options.directory, found);
  }
  return data;
}

// Returns a line with the sizes of the images, and the lines about unreadable ones.
std::vector<std::string> SizeLines(const ImageSizes& sizes) {
  std::vector<std::string> lines = {sizes.text};
  for (const std::string& bad : sizes.bad) lines.push_back("bad: " + bad);
  return lines;
}

StatusOr<TrainAndTest> Open(const DataConfig& config, const std::string& dir, bool with_test,
                            bool raw, ImageSizes* sizes) {
  TD_RETURN_IF_ERROR(CheckSources(config.images()));
  TD_ASSIGN_OR_RETURN(ImageListOptions options, ImageOptionsOf(config, dir));
  options.raw = raw;
  if (config.images().has_folder()) return Folder(config, options, dir, with_test, sizes);
  return Lists(config, options, dir, with_test);
}

}  // namespace

StatusOr<std::vector<std::string>> DescribeImages(const std::string& directory) {
  TD_ASSIGN_OR_RETURN(const ImageFolder folder, ListImageFolder(directory));
  std::vector<int64_t> counts(folder.classes.size());
  for (const ListedImage& image : folder.images) ++counts[static_cast<size_t>(image.label)];
  std::vector<std::string> lines;
  for (size_t k = 0; k < counts.size(); ++k) {
    lines.push_back(absl::StrFormat("class %d %s: %d images", k, folder.classes[k], counts[k]));
  }
  const std::vector<std::string> sizes = SizeLines(ReadImageSizes(directory, folder));
  lines.insert(lines.end(), sizes.begin(), sizes.end());
  if (folder.other_files > 0) lines.push_back(OtherFilesLine(directory, folder.other_files));
  return lines;
}

StatusOr<TrainAndTest> OpenJobImages(const DataConfig& config, const std::string& dir,
                                     bool with_test, bool raw) {
  return Open(config, dir, with_test, raw, /*sizes=*/nullptr);
}

StatusOr<DescribedData> OpenDescribed(const DataConfig& config, const std::string& job_dir) {
  DescribedData found;
  if (config.format() != "images" || !config.images().has_folder()) {
    TD_ASSIGN_OR_RETURN(found.data, OpenData(config, job_dir, /*with_test=*/true));
    return found;
  }
  TD_RETURN_IF_ERROR(CheckTestData(config));
  ImageSizes sizes;
  TD_ASSIGN_OR_RETURN(found.data, Open(config, DataDir(config, job_dir), /*with_test=*/true,
                                       /*raw=*/false, &sizes));
  found.image_sizes = SizeLines(sizes);
  return found;
}

}  // namespace tandem::reader
