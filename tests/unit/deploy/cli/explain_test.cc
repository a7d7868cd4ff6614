// tandem explain: every code has a row in its table, and the sources can produce every example
// message. The product uses every error number, and a test covers it.
#include "deploy/cli/errors/explain.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "deploy/cli/errors/error_codes.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

std::string SourceDir() {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  return root != nullptr ? root : ".";
}

std::string ReadSource(const std::string& path) {
  std::ifstream file(SourceDir() + "/" + path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Returns the string literals of a file, with adjacent literals joined.
std::vector<std::string> Literals(const std::string& path) {
  const std::string text = std::regex_replace(ReadSource(path), std::regex("\"\\s*\n\\s*\""), "");
  const std::regex literal(R"re("((?:[^"\\\n]|\\.)*)")re");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), literal), end; it != end; ++it) {
    found.push_back(std::regex_replace((*it)[1].str(), std::regex(R"(\\")"), "\""));
  }
  return found;
}

// Returns whether a printf format could have produced `text`. Returns false for formats of less
// than 12 characters, which would match too many texts. If `text` has no hint, the hint of the
// format is ignored.
bool Gives(const std::string& whole, const std::string& text) {
  constexpr std::string_view kHint = "; hint: ";
  const bool hint = text.find(kHint) != text.npos;
  const std::string format = hint ? whole : whole.substr(0, whole.find(kHint));
  if (format.size() < 12) return false;
  std::string pattern = std::regex_replace(format, std::regex(R"([.^$|()\[\]{}*+?\\])"), R"(\$&)");
  pattern = std::regex_replace(pattern, std::regex(R"(%(?:\\\.\d)?[a-z])"), ".*");
  return std::regex_match(text, std::regex(pattern));
}

TEST(Explain, EveryCodeHasARow) {
  const std::string header = ReadSource("common/base/status.h");
  const std::regex maker(R"(TANDEM_STATUS_MAKER\(\w+, (k\w+)\))");
  const size_t makers = static_cast<size_t>(
      std::distance(std::sregex_iterator(header.begin(), header.end(), maker), {}));
  std::set<StatusCode> codes;
  for (const deploy::CodeRow& row : deploy::CodeTable()) codes.insert(row.code);
  EXPECT_EQ(codes.size(), deploy::CodeTable().size());
  EXPECT_EQ(codes.size(), makers);
}

TEST(Explain, ExamplesAreWhatTandemSays) {
  for (const deploy::CodeRow& row : deploy::CodeTable()) {
    bool said = false;
    for (const std::string& literal : Literals(row.source)) said |= Gives(literal, row.example);
    EXPECT_TRUE(said) << row.source << " does not say: " << row.example;
  }
}

TEST(Explain, FindsByNameMessageAndExitCode) {
  ASSERT_TRUE(deploy::FindCode("DATA_LOSS").ok());
  EXPECT_EQ((*deploy::FindCode("DATA_LOSS"))[0].code, StatusCode::kDataLoss);
  const auto message =
      deploy::FindCode("tandem-trainer: a.bin: is damaged (at byte 7) (DATA_LOSS)\n");
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ((*message)[0].code, StatusCode::kDataLoss);
  EXPECT_EQ(deploy::FindCode("65")->size(), 1u);
  EXPECT_EQ(deploy::FindCode("200")->size(), 3u);  // exit code 200: three kinds of lost peers
  for (const char* none : {"0", "64", "", "something"})
    EXPECT_FALSE(deploy::FindCode(none).ok()) << none;
  EXPECT_THAT(std::string(deploy::FindCode("DATALOSS").status().message()), HasSubstr("DATA_LOSS"));
}

// Returns the files below `folders` with these endings, without the files of the table of codes.
std::vector<std::string> FilesOf(const std::vector<std::string>& folders,
                                 const std::set<std::string>& endings) {
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(SourceDir() + "/" + folder)) {
      const std::string path = std::filesystem::relative(entry.path(), SourceDir()).string();
      const bool table = entry.path().stem().string().rfind("error_codes", 0) == 0 ||
                         entry.path().filename() == "explain_test.cc";
      if (!table && endings.contains(entry.path().extension())) files.push_back(path);
    }
  }
  return files;
}

std::vector<std::string> ProductFiles() {
  return FilesOf({"collective", "common", "deploy", "kernels", "pserver", "trainer"},
                 {".cc", ".h", ".cu", ".py"});
}

// Returns the numbers of all codes in a text, which have the form "[TD1001]".
std::set<int> Carried(const std::string& text) {
  std::set<int> found;
  const std::regex code(R"(\[TD(\d+)\])");
  for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) {
    found.insert(std::stoi((*it)[1].str()));
  }
  return found;
}

std::set<int> CarriedBy(const std::vector<std::string>& files) {
  std::set<int> found;
  for (const std::string& file : files) found.merge(Carried(ReadSource(file)));
  return found;
}

TEST(ErrorCodes, NumbersAscendInTheirAreas) {
  ASSERT_GE(deploy::ErrorCodes().size(), 60u);
  std::set<int> areas;
  for (const deploy::ErrorArea& area : deploy::ErrorAreas()) areas.insert(area.digit);
  int before = 0;
  for (const deploy::ErrorCode& code : deploy::ErrorCodes()) {
    EXPECT_GT(code.number, before) << "a number twice, or out of order";
    before = code.number;
    EXPECT_TRUE(areas.contains(code.number / 1000)) << code.number;
    for (const std::string text : {code.title, code.means, code.causes, code.what_to_do}) {
      EXPECT_NE(text, "") << code.number;
      EXPECT_NE(text.back(), '.') << code.number << ": " << text;
    }
  }
}

TEST(ErrorCodes, TheProductMakesThoseOfTheTableAndNoOthers) {
  std::set<int> table;
  for (const deploy::ErrorCode& code : deploy::ErrorCodes()) table.insert(code.number);
  EXPECT_EQ(CarriedBy(ProductFiles()), table);
}

TEST(ErrorCodes, TestsMeetAllOfThem) {
  std::set<int> met;
  for (const int code : CarriedBy(FilesOf({"tests"}, {".cc", ".py", ".txt"}))) met.insert(code);
  for (const deploy::ErrorCode& code : deploy::ErrorCodes()) {
    EXPECT_TRUE(met.contains(code.number)) << deploy::NameOf(code) << " (" << code.title
                                           << ") is in no transcript and expected by no test";
  }
}

TEST(ErrorCodes, ExamplesAreWhatTandemSays) {
  std::string said;
  for (const std::string& file : FilesOf({"tests/messages"}, {".txt"})) said += ReadSource(file);
  std::map<int, std::vector<std::string>> made;
  for (const std::string& file : ProductFiles()) {
    for (const std::string& literal : Literals(file)) {
      for (const int code : Carried(literal)) made[code].push_back(literal);
    }
  }
  for (const deploy::ErrorCode& code : deploy::ErrorCodes()) {
    const std::string example = code.example;
    EXPECT_EQ(Carried(example), std::set<int>{code.number}) << example;
    const std::vector<std::string>& formats = made[code.number];
    const bool gives = std::any_of(formats.begin(), formats.end(), [&](const std::string& format) {
      return Gives(format, example) || Gives("%s: " + format, example);
    });
    EXPECT_TRUE(gives || said.find(example) != said.npos) << "nobody says: " << example;
  }
}

TEST(ErrorCodes, AreFoundByNumberAndInMessages) {
  for (const char* asked : {"TD6003", "td6003", "6003", "[TD6003]"}) {
    const auto found = deploy::CodesIn(asked);
    ASSERT_TRUE(found.ok() && found->size() == 1) << asked;
    EXPECT_EQ((*found)[0].number, 6003);
  }
  const auto both = deploy::CodesIn("2 checkpoints [TD2103]; the newest: x [TD2102], y [TD2102]");
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->size(), 2u);
  EXPECT_EQ((*both)[0].number, 2103);
  for (const char* none : {"", "65", "DATA_LOSS", "60031", "xtd6003", "within 6003 ms"}) {
    EXPECT_TRUE(deploy::CodesIn(none).ok() && deploy::CodesIn(none)->empty()) << none;
  }
  EXPECT_THAT(std::string(deploy::CodesIn("TD6093").status().message()),
              HasSubstr("did you mean \"TD60"));
  EXPECT_THAT(std::string(deploy::CodesIn("TD9999").status().message()), HasSubstr("lists all"));
  EXPECT_THAT(std::string(deploy::FindCode("TD600").status().message()),
              HasSubstr("did you mean \"TD600"));
}

// With TANDEM_UPDATE=1, the test writes the page instead of checking it.
TEST(ErrorCodes, PageIsCurrent) {
  const char* update = std::getenv("TANDEM_UPDATE");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(SourceDir() + "/docs/reference/error-codes.md") << deploy::ErrorsPage();
  }
  EXPECT_TRUE(ReadSource("docs/reference/error-codes.md") == deploy::ErrorsPage())
      << "docs/reference/error-codes.md is not current; write it anew: TANDEM_UPDATE=1 "
         "build/tests/explain_test";
}

}  // namespace
}  // namespace tandem::deploy
