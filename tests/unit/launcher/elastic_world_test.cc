// Tests the file that lists the ranks of an elastic job.
#include "common/launcher/elastic_world.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/os/files.h"

namespace tandem {
namespace {

class WorldFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path().string() + "/world_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    path_ = dir_ + "/world";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string dir_, path_;
};

TEST_F(WorldFileTest, WhatIsWrittenIsRead) {
  EXPECT_EQ(ReadElasticWorld(path_).status().code(), StatusCode::kNotFound);
  for (const ElasticWorld& world :
       {ElasticWorld{1, 2, false, {0, 1, 2, 3}}, ElasticWorld{2, 2, false, {1, 3}},
        ElasticWorld{7, 1, true, {}}}) {
    ASSERT_TRUE(WriteElasticWorld(path_, world).ok());
    const auto read = ReadElasticWorld(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, world);
  }
}

TEST_F(WorldFileTest, AnythingElseIsNoWorld) {
  for (const char* text :
       {"", "version", "version 1 least 1 over 0 members 2 0\n",
        "version 0 least 1 over 0 members 0", "version 1 least 1 over 0 members 2 3 1\n",
        "version x least 1 over 0 members 1 0\n",
        "version 1 least 1 over 0 members 99999999999999999999 0\n"}) {
    ASSERT_TRUE(WriteTextFile(path_, text).ok());
    EXPECT_EQ(ReadElasticWorld(path_).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST_F(WorldFileTest, MembersOfAnOlderWorldMustBeInTheNewest) {
  const auto code = [&](const ElasticWorld& world) {
    EXPECT_TRUE(WriteElasticWorld(path_, world).ok());
    return CheckMembers(path_, 2, {0, 1, 3}).code();
  };
  EXPECT_EQ(CheckMembers(path_, 2, {0, 1, 3}).code(), StatusCode::kOk) << "no file";
  EXPECT_EQ(code({1, 1, false, {0, 1}}), StatusCode::kOk) << "an older world";
  EXPECT_EQ(code({2, 1, false, {0, 1}}), StatusCode::kOk) << "the same world";
  EXPECT_EQ(code({3, 1, false, {0, 1, 2, 3}}), StatusCode::kOk) << "trainer 2 has joined";
  EXPECT_EQ(code({4, 1, true, {0, 1}}), StatusCode::kOk) << "trainer 3 is done";
  EXPECT_EQ(code({4, 1, false, {0, 1, 2}}), StatusCode::kAborted) << "trainer 3 is lost";
  EXPECT_NE(CheckMembers(path_, 2, {0, 1, 3}).message().find("trainer 3 is lost"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
