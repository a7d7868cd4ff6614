#include "trainer/reader/skipgram.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "common/base/rng.h"
#include "trainer/reader/text_parts.h"

namespace tandem::reader {
namespace {

constexpr uint64_t kSeed = 1;

// Calls word(text) for every sequence of letters in the file, converted to lower case.
template <typename Word>
Status ForEachWord(const std::string& path, const Word& word) {
  TD_ASSIGN_OR_RETURN(std::ifstream file, OpenTextFile(path));
  std::string text;
  for (char c = 0; file.get(c);) {
    const bool small = c >= 'a' && c <= 'z', capital = c >= 'A' && c <= 'Z';
    if (small || capital) {
      text += static_cast<char>(capital ? c - 'A' + 'a' : c);
    } else if (!text.empty()) {
      word(text);
      text.clear();
    }
  }
  if (file.bad()) return DataLoss("cannot read %s: %s [TD2106]", path, ErrnoText(errno));
  if (!text.empty()) word(text);
  return OkStatus();
}

// A text as a sequence of word numbers, and the distribution from which negatives are drawn.
struct Corpus {
  std::vector<uint32_t> words;
  std::vector<double> cumulated;  // cumulative sum of count^0.75, by the number of the word
};

// Returns the words of the vocabulary in the order of their numbers. The order is by frequency;
// equally frequent words are ordered by text.
std::vector<std::pair<int64_t, std::string>> MostFrequent(
    const std::map<std::string, int64_t>& counts, int64_t vocabulary) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [word, count] : counts) order.emplace_back(-count, word);
  std::sort(order.begin(), order.end());
  if (std::cmp_greater(order.size(), vocabulary)) order.resize(static_cast<size_t>(vocabulary));
  return order;
}

StatusOr<Corpus> ReadCorpus(const SkipGramOptions& options) {
  std::map<std::string, int64_t> counts;
  TD_RETURN_IF_ERROR(ForEachWord(options.path, [&](const std::string& w) { ++counts[w]; }));
  Corpus corpus;
  std::unordered_map<std::string, uint32_t> numbers;
  double total = 0;
  for (const auto& [count, word] : MostFrequent(counts, options.vocabulary)) {
    numbers.emplace(word, static_cast<uint32_t>(numbers.size()));
    corpus.cumulated.push_back(total += std::pow(static_cast<double>(-count), 0.75));
  }
  TD_RETURN_IF_ERROR(ForEachWord(options.path, [&](const std::string& w) {
    const auto it = numbers.find(w);
    if (it != numbers.end()) corpus.words.push_back(it->second);
  }));
  if (corpus.cumulated.size() < 3) {
    return DataLoss("%s contains only %d words of the vocabulary, expected at least 3 [TD2006]",
                    options.path, corpus.cumulated.size());
  }
  return corpus;
}

class SkipGram final : public Dataset {
 public:
  // Makes the dataset of the pairs in the words [begin, end) of the corpus.
  SkipGram(std::shared_ptr<const Corpus> corpus, const SkipGramOptions& options, int64_t begin,
           int64_t end, uint32_t samples_max)
      : corpus_(std::move(corpus)), options_(options), begin_(begin), end_(end) {
    const int64_t per_center = 2 * options_.window;
    const int64_t pairs = (end_ - begin_) * per_center;
    size_ = SampleCount(pairs, samples_max);
    const TensorDesc desc{DType::kI64, {1 + options_.negatives}};
    const auto words = static_cast<int64_t>(corpus_->cumulated.size());
    fields_ = {{"center", desc, words}, {"target", desc, words}, {"label", desc, 2}};
  }

  uint32_t size() const override { return size_; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    CHECK_EQ(out.size(), fields_.size());
    auto* center = static_cast<int64_t*>(out[0]);
    auto* target = static_cast<int64_t*>(out[1]);
    auto* label = static_cast<int64_t*>(out[2]);
    const int64_t n = 1 + options_.negatives;
    for (const uint32_t id : ids) {
      if (id >= size_)
        return OutOfRange("%s has no pair %d: there are %d pairs", options_.path, id, size_);
      const auto [word, neighbour] = PairAt(id);
      std::fill_n(center, n, word);
      std::fill_n(label, n, 0);
      target[0] = neighbour;
      label[0] = 1;
      for (int64_t k = 1; k < n; ++k) target[k] = Draw(id, k, neighbour);
      center += n;
      target += n;
      label += n;
    }
    return OkStatus();
  }
  std::string Describe() const override {
    return absl::StrFormat("%s: %d pairs of %d words", options_.path, size_,
                           corpus_->cumulated.size());
  }

 private:
  // Returns the center word and the neighbour of pair `id`. The words form a ring: the neighbour of
  // the first word may be the last word.
  std::pair<int64_t, int64_t> PairAt(uint32_t id) const {
    const int64_t per_center = 2 * options_.window, words = end_ - begin_;
    const int64_t at = id / per_center, step = id % per_center;
    const int64_t offset =
        step < options_.window ? step - options_.window : step - options_.window + 1;
    const int64_t other = ((at + offset) % words + words) % words;
    return {corpus_->words[static_cast<size_t>(begin_ + at)],
            corpus_->words[static_cast<size_t>(begin_ + other)]};
  }
  // Draws negative number `k` of a sample. If the drawn word is the neighbour, uses the word with
  // the next number.
  int64_t Draw(uint32_t id, int64_t k, int64_t neighbour) const {
    const auto& cumulated = corpus_->cumulated;
    const uint64_t key = StreamKey(kSeed, "skipgram");
    const uint64_t at = uint64_t{id} * static_cast<uint64_t>(options_.negatives + 1) +
                        static_cast<uint64_t>(k) + (static_cast<uint64_t>(begin_) << 36);
    const double point = static_cast<double>(UniformAt(key, at)) * cumulated.back();
    const auto found = std::upper_bound(cumulated.begin(), cumulated.end(), point);
    const auto words = static_cast<int64_t>(cumulated.size());
    const int64_t word = std::min<int64_t>(found - cumulated.begin(), words - 1);
    return word == neighbour ? (word + 1) % words : word;
  }

  const std::shared_ptr<const Corpus> corpus_;
  const SkipGramOptions options_;
  const int64_t begin_, end_;
  uint32_t size_ = 0;
  std::vector<SampleField> fields_;
};

Status Check(const SkipGramOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return OkStatus();
    return InvalidArgument("data.skipgram.%s is %d, expected %d to %d [TD1104]", name, value, min,
                           max);
  };
  TD_RETURN_IF_ERROR(check("vocabulary", options.vocabulary, 3, int64_t{1} << 31));
  TD_RETURN_IF_ERROR(check("window", options.window, 1, 1000));
  TD_RETURN_IF_ERROR(check("negatives", options.negatives, 1, 1000));
  if (options.test_share > 0 && options.test_share < 1) return OkStatus();
  return InvalidArgument(
      "data.skipgram.test_share is %g, expected a number between 0 and 1 [TD1104]",
      options.test_share);
}

}  // namespace

StatusOr<TrainAndTest> OpenSkipGram(const SkipGramOptions& options) {
  TD_RETURN_IF_ERROR(Check(options));
  TD_ASSIGN_OR_RETURN(Corpus read, ReadCorpus(options));
  const auto corpus = std::make_shared<const Corpus>(std::move(read));
  const auto words = static_cast<int64_t>(corpus->words.size());
  const TextParts parts(words, options.test_share);
  if (parts.shorter() <= options.window) {
    return DataLoss(
        "%s has only %d words, which is too few for a window of %d words in both training and test "
        "data [TD2006]",
        options.path, words, options.window);
  }
  return parts.Open(options.samples_max, [&](int64_t begin, int64_t end, uint32_t samples_max) {
    return std::make_unique<SkipGram>(corpus, options, begin, end, samples_max);
  });
}

}  // namespace tandem::reader
