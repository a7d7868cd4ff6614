#include "common/os/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(FilesTest, ListDirNamesTheEntries) {
  const TempDir dir;
  EXPECT_THAT(*ListDir(dir.path()), UnorderedElementsAre());
  std::ofstream(dir.path() + "/one").close();
  std::filesystem::create_directory(dir.path() + "/two");
  EXPECT_THAT(*ListDir(dir.path()), UnorderedElementsAre("one", "two"));
}

TEST(FilesTest, ListDirSaysWhyThereIsNoList) {
  const TempDir dir;
  const Status missing = ListDir(dir.path() + "/none").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("/none: cannot be listed (No such file or directory) [TD2106]"));
}

}  // namespace
}  // namespace tandem
