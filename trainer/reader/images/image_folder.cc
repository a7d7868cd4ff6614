#include "trainer/reader/images/image_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "trainer/reader/images/image_decoder.h"
#include "trainer/reader/input/input_file.h"

namespace tandem::reader {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBadShown = 10;
constexpr uint64_t kHeaderBytes = 1 << 16;  // bytes in which the size of most images is found

bool IsImageName(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") || lower.ends_with(".png");
}

Status CannotRead(const std::string& directory, const std::error_code& error) {
  if (error == std::errc::no_such_file_or_directory) {
    return NotFound("directory %s does not exist [TD2001]", directory);
  }
  if (error == std::errc::permission_denied) {
    return PermissionDenied("cannot read directory %s: %s [TD2106]", directory, error.message());
  }
  return InvalidArgument("cannot read directory %s: %s [TD2106]", directory, error.message());
}

// The entries of one directory.
struct Entries {
  std::vector<std::string> directories, files;  // names in the order of their bytes
};

StatusOr<Entries> ReadDirectory(const std::string& directory) {
  Entries entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;  // a link to nothing is a file
    auto& names = it->is_directory(unknown) ? entries.directories : entries.files;
    names.push_back(it->path().filename().string());
  }
  if (error) return CannotRead(directory, error);
  std::ranges::sort(entries.directories);
  std::ranges::sort(entries.files);
  return entries;
}

// Checks that a directory below `root` is no link to a directory that contains it, directly or
// through other links on the way from `root`.
Status CheckLink(const std::string& root, const fs::path& directory) {
  std::error_code error;
  if (!fs::is_symlink(directory, error)) return OkStatus();
  const fs::path target = fs::canonical(directory, error);
  if (error) return CannotRead(directory.string(), error);
  for (fs::path above = directory; above.string().size() > root.size();) {
    above = above.parent_path();
    const fs::path real = fs::canonical(above, error);
    if (error) return CannotRead(above.string(), error);
    if (std::ranges::mismatch(target, real).in1 != target.end()) continue;
    return InvalidArgument(
        "directory %s is a link to a directory that contains it [TD2106]; hint: remove the link",
        directory.string());
  }
  return OkStatus();
}

// Adds the images of a class. They are below the directory `name` of `root`.
Status AddClass(const std::string& root, const std::string& name, ImageFolder* folder) {
  using Found =
      std::pair<std::string, std::string>;  // directory relative to root, name of the file
  std::vector<Found> found;
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const std::string directory = std::move(open.back());
    open.pop_back();
    const std::string path = absl::StrCat(root, "/", directory);
    TD_RETURN_IF_ERROR(CheckLink(root, path));
    TD_ASSIGN_OR_RETURN(const Entries entries, ReadDirectory(path));
    for (const std::string& below : entries.directories)
      open.push_back(absl::StrCat(directory, "/", below));
    for (const std::string& file : entries.files) {
      if (IsImageName(file)) {
        found.emplace_back(directory, file);
      } else {
        ++folder->other_files;
      }
    }
  }
  if (found.empty()) {
    return DataLoss(
        "%s/%s: the class \"%s\" has no image (.jpg, .jpeg, .png) [TD2006]; hint: remove the "
        "directory",
        root, name, name);
  }
  std::ranges::sort(found);
  const auto label = static_cast<int32_t>(folder->classes.size());
  for (const auto& [directory, file] : found) {
    folder->images.push_back({absl::StrCat(directory, "/", file), label});
  }
  folder->classes.push_back(name);
  return OkStatus();
}

// Warns if the classes have the names of parts, such as train and test.
void WarnOfParts(const std::string& directory, const ImageFolder& folder,
                 std::vector<std::string>* warnings) {
  static const std::set<std::string> kParts = {"test", "testing", "train",     "training",
                                               "val",  "valid",   "validation"};
  const bool parts = std::ranges::all_of(
      folder.classes, [](const std::string& name) { return kParts.contains(name); });
  if (!parts) return;
  warnings->push_back(absl::StrFormat(
      "%s: the classes are %s; if they are parts of the data, set data { images { folder: \"%s\" "
      "test_folder: \"...\" } }",
      directory, absl::StrJoin(folder.classes, ", "), "train"));
}

// Gives the images of `test` the labels of the classes of `train`.
Status Relabel(const ImageFolder& train, const std::string& directory, ImageFolder* test) {
  std::vector<int32_t> labels;
  for (const std::string& name : test->classes) {
    const auto at = std::ranges::lower_bound(train.classes, name);
    if (at == train.classes.end() || *at != name) {
      return InvalidArgument(
          "%s: the class \"%s\" is not a directory of the training images [TD2004]%s", directory,
          name, OrDidYouMean(name, train.classes));
    }
    labels.push_back(static_cast<int32_t>(at - train.classes.begin()));
  }
  for (ListedImage& image : test->images) image.label = labels[static_cast<size_t>(image.label)];
  return OkStatus();
}

// The images of the training, validation and test part, with `root` as their directory.
struct Parts {
  std::vector<ListedImage> train, validation, test;
};

Parts Split(ImageFolder& folder, const ImageFolderOptions& options) {
  const RowSplit split(options.split, options.split_seed);
  Parts parts;
  for (size_t i = 0; i < folder.images.size(); ++i) {
    const RowPart part = split.PartOf(i);
    auto& to = part == RowPart::kTest         ? parts.test
               : part == RowPart::kValidation ? parts.validation
                                              : parts.train;
    to.push_back(folder.images[i]);
  }
  TD_REQUIRE(parts.train.size() + parts.validation.size() + parts.test.size() ==
             folder.images.size());
  const size_t all = parts.train.size(), wanted = options.samples_max;
  if (wanted == 0 || wanted >= all) return parts;
  std::vector<ListedImage> some;
  for (size_t i = 0; i < wanted; ++i) some.push_back(std::move(parts.train[i * all / wanted]));
  parts.train = std::move(some);
  return parts;
}

// Returns a line for each class with its number of images in each part.
std::vector<std::string> ClassLines(const std::vector<std::string>& classes, const Parts& parts) {
  TD_REQUIRE(!classes.empty());
  std::vector<std::array<size_t, 3>> counts(classes.size());
  const std::vector<ListedImage>* const all[] = {&parts.train, &parts.validation, &parts.test};
  for (size_t p = 0; p < 3; ++p) {
    for (const ListedImage& image : *all[p]) ++counts[static_cast<size_t>(image.label)][p];
  }
  std::vector<std::string> lines;
  for (size_t k = 0; k < classes.size(); ++k) {
    lines.push_back(absl::StrFormat("class %d %s: %d for training, %d for validation, %d for test",
                                    k, classes[k], counts[k][0], counts[k][1], counts[k][2]));
  }
  return lines;
}

StatusOr<std::unique_ptr<Dataset>> OpenPart(const ImageListOptions& options,
                                            std::vector<ListedImage> images, const char* part) {
  if (images.empty()) {
    return DataLoss("%s: there is no %s image [TD2006]; hint: change data.images.split",
                    options.list, part);
  }
  return OpenImages(options, std::move(images));
}

}  // namespace

std::string OtherFilesLine(const std::string& directory, uint64_t count) {
  return absl::StrFormat("%s: ignored %d files that are not .jpg, .jpeg or .png", directory, count);
}

StatusOr<ImageFolder> ListImageFolder(const std::string& directory) {
  TD_ASSIGN_OR_RETURN(const Entries entries, ReadDirectory(directory));
  ImageFolder folder;
  folder.other_files = entries.files.size();
  for (const std::string& name : entries.directories) {
    TD_RETURN_IF_ERROR(AddClass(directory, name, &folder));
  }
  if (folder.classes.size() < 2) {
    return DataLoss(
        "%s contains %d directories, expected one for each of at least two classes [TD2006]",
        directory, folder.classes.size());
  }
  return folder;
}

StatusOr<TrainAndTest> OpenImageFolder(const ImageFolderOptions& options, ImageListOptions images,
                                       bool with_test) {
  TD_ASSIGN_OR_RETURN(ImageFolder folder, ListImageFolder(options.directory));
  TrainAndTest data;
  if (folder.other_files > 0) {
    data.notes.push_back(OtherFilesLine(options.directory, folder.other_files));
  }
  WarnOfParts(options.directory, folder, &data.warnings);
  if (options.sizes != nullptr) *options.sizes = ReadImageSizes(options.directory, folder);
  Parts parts = Split(folder, options);
  images.list = images.root = options.directory;
  images.classes = static_cast<int64_t>(folder.classes.size());
  ImageListOptions tests = images;
  tests.random = false;
  const bool separate = !options.test_directory.empty();
  ImageListOptions last = tests;
  if (with_test && separate) {
    TD_ASSIGN_OR_RETURN(ImageFolder test, ListImageFolder(options.test_directory));
    TD_RETURN_IF_ERROR(Relabel(folder, options.test_directory, &test));
    if (test.other_files > 0) {
      data.notes.push_back(OtherFilesLine(options.test_directory, test.other_files));
    }
    parts.test = std::move(test.images);
    last.list = last.root = options.test_directory;
  }
  data.columns = ClassLines(folder.classes, parts);
  data.classes = folder.classes;
  TD_ASSIGN_OR_RETURN(data.train, OpenPart(images, std::move(parts.train), "training"));
  if (!with_test) return data;
  if (options.split[1] > 0 && (options.evaluate_validation || !parts.validation.empty())) {
    TD_ASSIGN_OR_RETURN(data.validation,
                        OpenPart(tests, std::move(parts.validation), "validation"));
  }
  if (options.evaluate_validation) {
    data.test = std::move(data.validation);
  } else if (separate || options.split[2] > 0) {
    TD_ASSIGN_OR_RETURN(data.test, OpenPart(last, std::move(parts.test), "test"));
  }
  return data;
}

ImageSizes ReadImageSizes(const std::string& directory, const ImageFolder& folder) {
  ImageSizes sizes;
  ImageDecoder decoder;
  std::vector<char> bytes;
  ImageSize least, most;
  size_t read = 0, bad = 0;
  const auto open = [&](const std::string& path) -> StatusOr<ImageSize> {
    TD_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
    if (file.size() > kImageBytesMax) return DataLoss("the file is larger than 2^30 bytes");
    bytes.resize(std::min<uint64_t>(file.size(), kHeaderBytes));
    TD_ASSIGN_OR_RETURN(size_t got, file.Read(0, bytes.data(), bytes.size()));
    StatusOr<ImageSize> size = decoder.Open({bytes.data(), got});
    if (size.ok() || got == file.size()) return size;
    bytes.resize(file.size());
    TD_ASSIGN_OR_RETURN(got, file.Read(0, bytes.data(), bytes.size()));
    return decoder.Open({bytes.data(), got});
  };
  for (const ListedImage& image : folder.images) {
    const std::string path = absl::StrCat(directory, "/", image.path);
    const StatusOr<ImageSize> size = open(path);
    if (!size.ok()) {
      if (++bad <= kBadShown)
        sizes.bad.push_back(absl::StrCat(path, ": ", size.status().message()));
      continue;
    }
    least = read == 0 ? *size
                      : ImageSize{std::min(least.width, size->width),
                                  std::min(least.height, size->height)};
    most = {std::max(most.width, size->width), std::max(most.height, size->height)};
    ++read;
  }
  sizes.text = read == 0 ? std::string("sizes: unknown")
                         : absl::StrFormat("sizes: width %d to %d, height %d to %d", least.width,
                                           most.width, least.height, most.height);
  if (bad > 0) sizes.text += absl::StrFormat("; %d images are not readable", bad);
  return sizes;
}

}  // namespace tandem::reader
