// Tests the cache of compiled code. The cache compiles a code once and stores it for other
// processes.
#include "kernels/ops/cuda/code_cache.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using Compiled = ops::CodeCache::Compiled<std::string>;
using Shared = std::shared_ptr<std::string>;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class CodeCaches : public testing::Test {
 protected:
  // Gets the code of `key`. The compiler of this test returns "code of KEY". If keep_ is set, the
  // cache also stores this text.
  StatusOr<Shared> Get(ops::CodeCache& cache, const std::string& key) {
    const auto load = [this](const std::string& bytes) -> StatusOr<Shared> {
      if (refuse_) return Internal("not here");
      return std::make_shared<std::string>(bytes);
    };
    const auto compile = [&]() -> StatusOr<Compiled> {
      ++compiled_;
      if (fail_) return Unimplemented("no compiler");
      const std::string code = "code of " + key;
      return Compiled{std::make_shared<std::string>(code), keep_ ? code : ""};
    };
    return cache.Get<std::string>(key, load, compile);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    if (!std::filesystem::exists(folder_)) return files;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      files.push_back(file.path());
    }
    return files;
  }

  const TempDir dir_;
  const std::string folder_ = dir_.path() + "/a/b";
  int compiled_ = 0;
  bool refuse_ = false, fail_ = false, keep_ = true;
};

TEST_F(CodeCaches, EqualKeysAreCompiledOnce) {
  ops::CodeCache cache;
  const auto first = Get(cache, "x"), second = Get(cache, "x"), other = Get(cache, "y");
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(**other, "code of y");
  EXPECT_EQ(compiled_, 2);
  EXPECT_THAT(cache.TakeNotes(), MatchesRegex("code for the device: 2 compiled .*, 0 known\n"));
  EXPECT_EQ(cache.TakeNotes(), "");
}

TEST_F(CodeCaches, OthersFindWhatIsKept) {
  ops::CodeCache first(folder_), second(folder_);
  ASSERT_TRUE(Get(first, "x").ok());
  EXPECT_EQ(**Get(second, "x"), "code of x");
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(second.TakeNotes(),
            "code for the device: 0 compiled (0.0 s), 1 known in " + folder_ + "\n");
  EXPECT_EQ(**Get(second, "y"), "code of y");
  EXPECT_EQ(compiled_, 2);
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(CodeCaches, WhatIsDamagedIsCompiledAgain) {
  ops::CodeCache first(folder_);
  ASSERT_TRUE(Get(first, "x").ok());
  ASSERT_EQ(Files().size(), 1u);
  const std::string file = Files()[0];
  std::ifstream in(file);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    for (const bool cut : {true, false}) {
      std::string damaged = whole.substr(0, cut ? bytes : whole.size());
      if (!cut) damaged[bytes] ^= 1;
      std::ofstream(file) << damaged;
      ops::CodeCache cache(folder_);
      compiled_ = 0;
      EXPECT_EQ(**Get(cache, "x"), "code of x");
      EXPECT_EQ(compiled_, 1) << "byte " << bytes;
    }
  }
  ops::CodeCache last(folder_);
  compiled_ = 0;
  ASSERT_TRUE(Get(last, "x").ok());
  EXPECT_EQ(compiled_, 0) << "it was replaced";
}

// Two keys have the same hash and thus the same file. The cache uses a file only for the key that
// the file names.
TEST_F(CodeCaches, AnotherKeysFileIsNotTaken) {
  ops::CodeCache first(folder_), second(folder_);
  ASSERT_TRUE(Get(first, "x").ok());
  const std::string of_x = Files()[0];
  ASSERT_TRUE(Get(first, "y").ok());
  const std::string of_y = Files()[Files()[0] == of_x ? 1 : 0];
  std::filesystem::rename(of_x, of_y);
  EXPECT_EQ(**Get(second, "y"), "code of y");
  EXPECT_EQ(compiled_, 3);
}

TEST_F(CodeCaches, WhatCannotBeLoadedIsCompiledAgain) {
  ops::CodeCache first(folder_), second(folder_);
  ASSERT_TRUE(Get(first, "x").ok());
  refuse_ = true;
  EXPECT_EQ(**Get(second, "x"), "code of x");
  EXPECT_EQ(compiled_, 2);
}

TEST_F(CodeCaches, ErrorsAreThoseOfCompiling) {
  ops::CodeCache cache(folder_);
  fail_ = true;
  EXPECT_EQ(Get(cache, "x").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Files().size(), 0u);
  EXPECT_EQ(cache.TakeNotes(), "");
  EXPECT_EQ(Get(cache, "x").status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(compiled_, 1) << "what failed would fail again";
  fail_ = false;
  ops::CodeCache next(folder_);
  EXPECT_TRUE(Get(next, "x").ok()) << "not kept";
}

// Each thread writes a separate draft file, so no thread uses or replaces the draft of another
// thread.
TEST_F(CodeCaches, ManyKeepTheSameAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> warned = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        ops::CodeCache cache(folder_);
        const std::string code(size_t{1} << 16, 'c');
        const auto load = [](const std::string&) -> StatusOr<Shared> { return Internal("again"); };
        const auto compile = [&]() -> StatusOr<Compiled> {
          return Compiled{std::make_shared<std::string>(code), code};
        };
        EXPECT_TRUE(cache.Get<std::string>("x", load, compile).ok());
        if (absl::StrContains(cache.TakeNotes(), "warning")) ++warned;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(warned, 0);
  EXPECT_EQ(Files().size(), 1u) << "no draft is left";
}

TEST_F(CodeCaches, WhatHasNoBytesIsNotKept) {
  ops::CodeCache cache(folder_);
  keep_ = false;
  ASSERT_TRUE(Get(cache, "x").ok());
  EXPECT_EQ(Files().size(), 0u);
}

// The process runs stored code. Therefore the cache rejects code that other users could have
// written.
TEST_F(CodeCaches, WhatOthersCouldHaveWrittenIsNotRun) {
  ops::CodeCache first(folder_);
  ASSERT_TRUE(Get(first, "x").ok());
  const std::string file = Files()[0];
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  for (const std::string& path : {file, folder_}) {
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    ops::CodeCache cache(folder_);
    compiled_ = 0;
    EXPECT_EQ(**Get(cache, "x"), "code of x");
    EXPECT_EQ(compiled_, 1) << path;
    // If other users may write the file, the cache replaces the file by its own. If other users may
    // write the directory, the cache also returns a note.
    const bool said = absl::StrContains(cache.TakeNotes(), "other users may write to directory");
    EXPECT_EQ(said, path == folder_);
    fs::permissions(path, before);
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(folder_.c_str(), 65534, 0), 0);
  ops::CodeCache cache(folder_);
  compiled_ = 0;
  EXPECT_EQ(**Get(cache, "x"), "code of x");
  EXPECT_EQ(compiled_, 1);
  EXPECT_THAT(cache.TakeNotes(), HasSubstr("(65534), expected root [TD2113]"));
}

TEST_F(CodeCaches, AFolderThatRefusesIsNamedOnce) {
  const std::string file = dir_.path() + "/file";
  std::ofstream(file) << "no folder";
  ops::CodeCache cache(file);
  EXPECT_EQ(**Get(cache, "x"), "code of x");
  EXPECT_EQ(**Get(cache, "y"), "code of y");
  EXPECT_THAT(cache.TakeNotes(),
              ContainsRegex("2 compiled .*\nwarning: what was compiled is not kept: .*" + file));
  ASSERT_TRUE(Get(cache, "z").ok());
  EXPECT_THAT(cache.TakeNotes(), Not(HasSubstr("warning")));
}

}  // namespace
}  // namespace tandem
