// The rules of docs/ARCHITECTURE.md that can be read off the source tree: who may include whom,
// what may not be called, how large things may be. Each failure names file, line and what to do
// instead.
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

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the root of the project
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

// Folder -> folders it may include, besides itself. The longest matching folder counts.
const std::map<std::string, std::vector<std::string>>& Directions() {
  static const std::map<std::string, std::vector<std::string>> directions = {
      {"common/base", {}},
      {"common/tensor", {"common/base"}},
      {"common/shm", {"common/tensor", "common/base"}},
      {"common/rpc", {"common/tensor", "common/base", "proto"}},
      {"common/lane", {"common/rpc", "common/shm", "common/tensor", "common/base"}},
      {"common/http", {"common/rpc", "common/base"}},
      {"common/strategy", {"common/base", "proto"}},
      {"kernels/ops", {"common", "proto"}},
      {"kernels/graph", {"kernels/ops", "common", "proto"}},
      {"kernels/exec", {"kernels/graph", "kernels/ops", "common", "proto"}},
      {"collective", {"common", "proto"}},
      {"pserver", {"kernels", "common", "proto"}},
      {"pserver/client", {"common", "proto"}},
      {"trainer", {"pserver/client", "collective", "kernels", "common", "proto"}},
      {"deploy", {"trainer", "pserver", "collective", "kernels", "common", "proto"}},
      {"tests", {"deploy", "trainer", "pserver", "collective", "kernels", "common", "proto"}},
  };
  return directions;
}

// The folder of Directions() (or "proto") that `path` is in.
std::string ModuleOf(const std::string& path) {
  if (path.starts_with("proto/")) return "proto";
  std::string best;
  for (const auto& [folder, allowed] : Directions()) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

bool MayInclude(const std::string& from, const std::string& to) {
  if (from == to) return true;
  const auto& allowed = Directions().at(from);
  return std::any_of(allowed.begin(), allowed.end(), [&to](const std::string& folder) {
    // "pserver" allows the server, but not its client folder, which says its own.
    return to == folder || (to.starts_with(folder + "/") && folder != "pserver");
  });
}

TEST(Tidy, IncludesLookDown) {
  const std::regex include(R"re(^\s*#include "([^"]+)")re");
  for (const SourceFile& file : Sources()) {
    const std::string from = ModuleOf(file.path);
    ASSERT_FALSE(from.empty()) << file.path << ": in no module of Directions()";
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_search(file.lines[i], match, include)) continue;
      const std::string to = ModuleOf(match[1]);
      if (to.empty()) continue;  // a library's header in quotes (absl)
      const bool glue = from == "deploy" && to == "pserver/client";
      const bool test = from == "tests";
      EXPECT_TRUE(MayInclude(from, to) || glue || test)
          << file.path << ":" << i + 1 << ": " << from << " may not include " << match[1];
    }
  }
}

// Headers that are slow, or that would tie everybody to a library, stay out of headers; the few
// that exist to wrap a library are included by .cc files only.
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
      "kernels/ops/cpu/dnnl_program.h",
      "pserver/client/carrier/blocking_call.h",
      "pserver/client/client_impl.h",
      "pserver/client/carrier/grpc_ps_channel.h",
      "pserver/client/carrier/raw_call.h",
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
  std::vector<std::string> allowed;  // files or folders
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
        "tests/"}},
      {R"(\b(TODO|FIXME|XXX)\b)", "say it in an issue, or do it", {"tests/tidy_test.cc"}},
      {R"(\b(system|popen)\()", "posix_spawn (deploy/launch/process.h)", {"tests/"}},
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

// A ratchet: longer ones are listed with the reason; the list only gets shorter.
const std::set<std::string>& LongFiles() {
  static const std::set<std::string> files = {};
  return files;
}

TEST(Tidy, FilesAndLinesAreShort) {
  constexpr size_t kFileLines = 500, kColumns = 100;
  for (const SourceFile& file : Sources()) {
    if (!LongFiles().contains(file.path)) {
      EXPECT_LE(file.lines.size(), kFileLines) << file.path << ": two rooms would be better";
    }
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // UTF-8: count first bytes
      });
      const bool literal = line.find("R\"") != std::string::npos;
      EXPECT_TRUE(static_cast<size_t>(columns) <= kColumns || literal)
          << file.path << ":" << i + 1 << ": " << columns << " columns";
    }
  }
}

// With clang-format's shape a body begins at a line that is not indented (or one level inside a
// class) and ends with a closing brace at the same indentation.
TEST(Tidy, FunctionsFitOnAScreen) {
  constexpr size_t kFunctionLines = 70;
  const std::regex head(R"(^(  )?[A-Za-z_~].*\) ?(const|override|noexcept|final| )*\{$)");
  // "});" ends a lambda that is an argument.
  const auto ends = [](const std::string& line, const std::string& indent) {
    return line == indent + "}" || line == indent + "});";
  };
  for (const SourceFile& file : Sources()) {
    if (file.path.starts_with("tests/")) continue;  // tables of cases are as long as they are
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (!std::regex_search(file.lines[i], head)) continue;
      const std::string indent(file.lines[i].find_first_not_of(' '), ' ');
      size_t end = i + 1;
      while (end < file.lines.size() && !ends(file.lines[end], indent)) ++end;
      EXPECT_LE(end - i + 1, kFunctionLines) << file.path << ":" << i + 1 << ": " << file.lines[i];
    }
  }
}

TEST(Tidy, HeadersHaveAGuardAndAFirstComment) {
  for (const SourceFile& file : Sources()) {
    // *_code.h is included several times on purpose: one body, compiled per instruction set.
    if (!file.path.ends_with(".h") || file.path.ends_with("_code.h")) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines[0].starts_with("//")) << file.path << ": say first what it is for";
    EXPECT_NE(std::find(file.lines.begin(), file.lines.end(), "#pragma once"), file.lines.end())
        << file.path;
  }
}

// ---- The top level
// --------------------------------------------------------------------------------

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
