// Checks those rules of docs/ARCHITECTURE.md that the source text shows: allowed includes,
// forbidden calls, and size limits. Each failure names the file, the line and a remedy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/include_directions.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // path of the file, relative to the root of the project
  std::vector<std::string> lines;
};

std::string Root() {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  return root != nullptr ? root : ".";
}

std::vector<SourceFile> Sources() {
  static const std::set<std::string> kExtensions = {".h", ".cc", ".cu", ".cuh"};
  static const std::vector<std::string> kFolders = {"common",  "kernels", "collective", "pserver",
                                                    "trainer", "deploy",  "tests"};
  std::vector<SourceFile> files;
  for (const std::string& folder : kFolders) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(Root()) / folder)) {
      if (!entry.is_regular_file() || !kExtensions.contains(entry.path().extension())) continue;
      SourceFile file{fs::relative(entry.path(), Root()).string(), {}};
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  return files;
}

// ---- Include directions -------------------------------------------------------------------------

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Returns a map from each directory to the directories whose headers its files include. The value
// of each pair is the place of one such include, as "FILE:LINE".
std::map<std::string, std::map<std::string, std::string>> Included() {
  const std::regex include(R"re(^\s*#include "([^"]+)")re");
  std::map<std::string, std::map<std::string, std::string>> included;
  for (const SourceFile& file : Sources()) {
    if (file.path.starts_with("tests/") || file.path.starts_with("deploy/examples/")) continue;
    auto& row = included[FolderOf(file.path)];
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(file.lines[i], match, include)) continue;
      const std::string header = match[1];
      const bool ours = header.starts_with("proto/") || fs::exists(fs::path(Root()) / header);
      const std::string to = FolderOf(header);
      // Skips headers of libraries, and headers in the directory of the file itself.
      if (!ours || to == FolderOf(file.path)) continue;
      row.emplace(to, file.path + ":" + std::to_string(i + 1));
    }
  }
  return included;
}

TEST(Tidy, IncludesAreThoseOfTheTable) {
  const auto included = Included();
  for (const auto& [folder, row] : included) {
    const auto allowed = IncludeDirections().find(folder);
    ASSERT_NE(allowed, IncludeDirections().end())
        << folder << ": has no row in tests/include_directions.h";
    for (const auto& [to, place] : row) {
      EXPECT_TRUE(allowed->second.contains(to)) << place << ": " << folder << " may not include "
                                                << to << " (tests/include_directions.h)";
    }
    for (const std::string& to : allowed->second) {
      EXPECT_TRUE(row.contains(to)) << "tests/include_directions.h: " << folder
                                    << " includes nothing of " << to << ": remove that arrow";
    }
  }
  for (const auto& [folder, row] : IncludeDirections()) {
    EXPECT_TRUE(included.contains(folder)) << "tests/include_directions.h: no folder " << folder;
  }
}

TEST(Tidy, TheTableOfIncludesHasNoCircle) {
  std::set<std::string> done = {"proto"};
  for (size_t before = 0; before != done.size();) {
    before = done.size();
    for (const auto& [folder, row] : IncludeDirections()) {
      const bool ready = std::all_of(row.begin(), row.end(),
                                     [&](const std::string& to) { return done.contains(to); });
      if (ready) done.insert(folder);
    }
  }
  for (const auto& [folder, row] : IncludeDirections()) {
    EXPECT_TRUE(done.contains(folder)) << folder << " is in a circle of includes, or above one";
  }
}

TEST(Tidy, RoomsHaveAReadme) {
  constexpr size_t kLinesMax = 40;
  for (const auto& [folder, row] : IncludeDirections()) {
    std::ifstream in(fs::path(Root()) / folder / "README.md");
    size_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    EXPECT_TRUE(lines > 3 && lines <= kLinesMax)
        << folder << "/README.md has " << lines << " lines; write for a newcomer what the room is "
        << "for, its main types, its callers and what it must not know, in at most " << kLinesMax;
  }
}

// A header must not include a header that compiles slowly, or that makes all users depend on a
// library. Exceptions are the headers in kWrappers, which wrap a library. No header outside
// kWrappers may include them.
TEST(Tidy, HeavyHeadersStayOutOfHeaders) {
  static const std::set<std::string> kWrappers = {
      "collective/rendezvous/dial.h",
      "collective/rendezvous/listener.h",
      "collective/rendezvous/rendezvous_handler.h",
      "collective/rendezvous/handshake_acceptor.h",
      "collective/rendezvous/resolve.h",
      "collective/rendezvous/blocking_io_context.h",
      "common/rpc/byte_buffer.h",
      "common/rpc/grpc_status.h",
      "common/rpc/message_checksum.h",
      "kernels/ops/cpu/dnnl_program.h",
      "pserver/client/carrier/blocking_call.h",
      "pserver/client/carrier/grpc_ps_channel.h",
      "pserver/client/carrier/raw_call.h",
      "pserver/resp/resp_connection.h",
      "pserver/service/call_context.h",
      "pserver/service/service_handlers.h",
  };
  const std::regex heavy(
      R"(#include [<"](grpc|boost/|oneapi/|rocksdb/|google/protobuf|.*\.pb\.h))");
  const std::regex include(R"re(#include "([^"]+)")re");
  for (const SourceFile& file : Sources()) {
    if (!file.path.ends_with(".h") || file.path.starts_with("tests/")) continue;
    if (kWrappers.contains(file.path)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      const bool wrapper =
          std::regex_search(file.lines[i], match, include) && kWrappers.contains(match[1].str());
      EXPECT_FALSE(wrapper || std::regex_search(file.lines[i], heavy))
          << file.path << ":" << i + 1
          << ": include it in a .cc file and declare forward here: " << file.lines[i];
    }
  }
}

// ---- Calls --------------------------------------------------------------------------------------

struct BannedRow {
  const char* pattern;
  const char* instead;
  std::vector<std::string> allowed;  // files or directories in which the forbidden call is allowed
};

const std::vector<BannedRow>& Banned() {
  static const std::vector<BannedRow> rows = {
      {R"(\b(usleep|nanosleep|sleep_for|sleep_until|sleep)\()",
       "wait for what you wait for, with a deadline (common/base/mutex.h)",
       {"tests/"}},
      {R"(\bgetenv\()",
       "hand the environment in from main",
       {"pserver/main.cc", "trainer/main.cc", "tests/"}},
      {R"(\.detach\(\))", "join threads", {}},
      {R"(std::(mutex|condition_variable|lock_guard|unique_lock)\b)",
       "common/base/mutex.h",
       {"common/base/mutex.h", "tests/"}},
      {R"(\bdelete [a-z_*])", "owners are smart pointers", {}},
      {R"(\bDECLARE_(string|bool|int32|int64|double)\()", "flags are read in main.cc only", {}},
      {R"(\bDEFINE_(string|bool|int32|int64|uint64|double)\()",
       "flags belong to main.cc",
       {"trainer/main.cc", "pserver/main.cc", "deploy/launch/main.cc", "deploy/cli/main.cc",
        "common/base/own_flags.h", "tests/"}},
      {R"(\b(TODO|FIXME|XXX)\b)", "say it in an issue, or do it", {"tests/tidy_test.cc"}},
      {R"(\b(system|popen)\()", "posix_spawn (deploy/launch/process/process.h)", {"tests/"}},
      {R"(\b(rand|srand|time)\((NULL|nullptr|0)?\))", "common/base/rng.h, common/base/clock.h", {}},
      {R"(using namespace)", "name what you use", {}},
  };
  return rows;
}

std::string WithoutComment(const std::string& line) {
  const size_t at = line.find("//");
  return at == std::string::npos ? line : line.substr(0, at);
}

TEST(Tidy, BannedCalls) {
  for (const BannedRow& row : Banned()) {
    const std::regex pattern(row.pattern);
    const bool comments = std::string(row.pattern).find("TODO") != std::string::npos;
    for (const SourceFile& file : Sources()) {
      if (std::any_of(row.allowed.begin(), row.allowed.end(),
                      [&](const std::string& a) { return file.path.starts_with(a); })) {
        continue;
      }
      if (file.path == "tests/tidy_test.cc") continue;
      for (size_t i = 0; i < file.lines.size(); ++i) {
        const std::string text = comments ? file.lines[i] : WithoutComment(file.lines[i]);
        EXPECT_FALSE(std::regex_search(text, pattern))
            << file.path << ":" << i + 1 << ": " << text << "\n  instead: " << row.instead;
      }
    }
  }
}

// ---- Sizes --------------------------------------------------------------------------------------

// This test checks only the length of lines. tests/shape/shape_test.py checks functions and
// classes.
TEST(Tidy, LinesAreShort) {
  constexpr size_t kColumns = 100;
  for (const SourceFile& file : Sources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        // Counts each UTF-8 character once, by its first byte.
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      });
      const bool literal = line.find("R\"") != std::string::npos;
      EXPECT_TRUE(static_cast<size_t>(columns) <= kColumns || literal)
          << file.path << ":" << i + 1 << ": " << columns << " columns";
    }
  }
}

TEST(Tidy, HeadersHaveAGuardAndAFirstComment) {
  for (const SourceFile& file : Sources()) {
    // Files *_code.h are exempt: other files include them several times on purpose, once per
    // instruction set.
    if (!file.path.ends_with(".h") || file.path.ends_with("_code.h")) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines[0].starts_with("//")) << file.path << ": say first what it is for";
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path;
  }
}

// ---- The top level ------------------------------------------------------------------------------

TEST(Tidy, TopLevelIsFixed) {
  const std::set<std::string> allowed = {"CMakeLists.txt",  "CMakePresets.json",
                                         "README.md",       "CHANGELOG.md",
                                         "CONTRIBUTING.md", "LICENSE",
                                         "NOTICE",          "pserver",
                                         "trainer",         "collective",
                                         "common",          "proto",
                                         "kernels",         "deploy",
                                         "tests",           "docs"};
  for (const auto& entry : fs::directory_iterator(Root())) {
    const std::string name = entry.path().filename();
    if (name[0] == '.' || name.starts_with("build") || name == "compile_commands.json") continue;
    EXPECT_TRUE(allowed.contains(name)) << name << " does not belong at the top level";
  }
}

}  // namespace
}  // namespace tandem
