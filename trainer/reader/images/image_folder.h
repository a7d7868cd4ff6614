// A directory of images with a directory for each class, as torchvision's ImageFolder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/images/image_list.h"
#include "trainer/reader/input/row_split.h"

namespace tandem::reader {

// The files of a directory of images.
struct ImageFolder {
  std::vector<std::string> classes;  // names of the directories, in the order of their bytes
  // The images by class. Within a class they are in the order of the names of their directories,
  // then of the files, by bytes. Paths are relative to the directory of all classes.
  std::vector<ListedImage> images;
  uint64_t other_files = 0;  // number of files that are no images by their names
};

// Lists the images of a directory. Images are the files in the directories of the classes, however
// deep, whose names end with .jpg, .jpeg or .png in any case. Follows links. NOT_FOUND: there is no
// such directory. DATA_LOSS: a class has no image, or there are fewer than two classes.
// PERMISSION_DENIED and other errors: a directory cannot be read, or a link leads to a directory
// that contains it.
StatusOr<ImageFolder> ListImageFolder(const std::string& directory);

// Returns the note about the files that are no images.
std::string OtherFilesLine(const std::string& directory, uint64_t count);

// The sizes of the images of a directory.
struct ImageSizes {
  std::string text;              // one line: widths, heights, and the number of unreadable images
  std::vector<std::string> bad;  // messages about the first ten images that are not readable
};
// Reads the headers of all images of `folder`, which lists `directory`.
ImageSizes ReadImageSizes(const std::string& directory, const ImageFolder& folder);

struct ImageFolderOptions {
  std::string directory;
  std::string test_directory;  // directory of test images; "": `split` makes test images
  SplitShares split = {1, 0, 0};
  uint64_t split_seed = 1;
  bool evaluate_validation = false;  // true: the test data are the validation images
  // Number of training images to use, spread evenly over all; 0: all.
  uint32_t samples_max = 0;
  ImageSizes* sizes = nullptr;  // not null: receives the result of ReadImageSizes()
};

// Opens the images of a directory as OpenImages() does. `images`: the options of training data,
// whose list, root and classes are set by this function. `with_test`: also opens validation and
// test images. Errors: those of ListImageFolder() and OpenImages(); DATA_LOSS: a part has no image;
// INVALID_ARGUMENT: the test directory has a class that the directory lacks.
StatusOr<TrainAndTest> OpenImageFolder(const ImageFolderOptions& options, ImageListOptions images,
                                       bool with_test);

}  // namespace tandem::reader
