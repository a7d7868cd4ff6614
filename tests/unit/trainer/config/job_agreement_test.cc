#include "trainer/config/job_agreement.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstring>
#include <set>
#include <thread>

#include "collective/host/inproc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::trainer {
namespace {

namespace gpb = google::protobuf;
using Path = std::vector<const gpb::FieldDescriptor*>;
using testing::StartsWith;

// A dataset of ten samples. The test sets the number of all samples and the label of the last
// sample. All other labels are 0.
class TenSamples final : public reader::Dataset {
 public:
  TenSamples(float x, int64_t label) : x_(x), label_(label) {}
  uint32_t size() const override { return 10; }
  const std::vector<reader::SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    for (size_t i = 0; i < ids.size(); ++i) {
      static_cast<float*>(out[0])[i] = x_;
      static_cast<int64_t*>(out[1])[i] = ids[i] == 9 ? label_ : 0;
    }
    return OkStatus();
  }
  std::string Describe() const override { return "ten samples"; }

 private:
  const float x_;
  const int64_t label_;
  const std::vector<reader::SampleField> fields_ = {{"x", {DType::kF32, Shape{1}}},
                                                    {"label", {DType::kI64, Shape{1}}}};
};

JobConfig Job() {
  JobConfig config;
  config.set_global_batch_size(32);
  config.mutable_model()->set_zoo("mlp");
  return config;
}

Agreement ListOf(const JobConfig& config, int workers = 2,
                 const reader::Dataset& data = TenSamples(0, 1)) {
  const auto list = AgreementOf(config, "", workers, data);
  EXPECT_TRUE(list.ok()) << list.status();
  return list.ok() ? *list : Agreement();
}

std::string NameOf(const Path& path) {
  std::string name;
  for (const auto* field : path) name += (name.empty() ? "" : ".") + field->name();
  return name;
}

bool MayDiffer(const std::string& path) {
  for (const NotComparedField& row : NotCompared()) {
    if (path == row.path || path.starts_with(std::string(row.path) + ".")) return true;
  }
  return false;
}

// Sets the field to a value other than its default.
void Change(gpb::Message* message, const gpb::FieldDescriptor* field) {
  const gpb::Reflection& r = *message->GetReflection();
  const bool list = field->is_repeated();
  using F = gpb::FieldDescriptor;
  switch (field->cpp_type()) {
    case F::CPPTYPE_BOOL:
      return r.SetBool(message, field, !r.GetBool(*message, field));
    case F::CPPTYPE_INT32:
      return r.SetInt32(message, field, r.GetInt32(*message, field) + 1);
    case F::CPPTYPE_INT64:
      return list ? r.AddInt64(message, field, 7)
                  : r.SetInt64(message, field, r.GetInt64(*message, field) + 1);
    case F::CPPTYPE_UINT64:
      return r.SetUInt64(message, field, r.GetUInt64(*message, field) + 1);
    case F::CPPTYPE_FLOAT:
      return list ? r.AddFloat(message, field, 7)
                  : r.SetFloat(message, field, r.GetFloat(*message, field) + 1);
    case F::CPPTYPE_DOUBLE:
      return list ? r.AddDouble(message, field, 7)
                  : r.SetDouble(message, field, r.GetDouble(*message, field) + 1);
    case F::CPPTYPE_ENUM: {
      const int other = r.GetEnumValue(*message, field) == field->enum_type()->value(0)->number();
      return r.SetEnumValue(message, field, field->enum_type()->value(other)->number());
    }
    case F::CPPTYPE_STRING:
      return list ? r.AddString(message, field, "other")
                  : r.SetString(message, field, r.GetString(*message, field) + "other");
    default:
      FAIL() << field->full_name() << " is of a type that this test does not know";
  }
}

void ChangeAt(const Path& path, JobConfig* config) {
  gpb::Message* at = config;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const gpb::Reflection& r = *at->GetReflection();
    at = path[i]->is_repeated() ? r.AddMessage(at, path[i]) : r.MutableMessage(at, path[i]);
  }
  Change(at, path.back());
}

void Leaves(const gpb::Descriptor* type, Path path, std::vector<Path>* leaves) {
  for (int i = 0; i < type->field_count(); ++i) {
    path.push_back(type->field(i));
    if (type->field(i)->message_type() != nullptr) {
      Leaves(type->field(i)->message_type(), path, leaves);
    } else {
      leaves->push_back(path);
    }
    path.pop_back();
  }
}

TEST(JobAgreementTest, EveryFieldIsComparedOrMayDiffer) {
  const std::set<std::string> special = {"batch_size", "model.program", "model.parameters",
                                         "model.arg.name", "model.arg.value"};
  std::vector<Path> leaves;
  Leaves(JobConfig::descriptor(), {}, &leaves);
  EXPECT_GT(leaves.size(), 200U);
  const Agreement plain = ListOf(Job());
  for (const Path& path : leaves) {
    const std::string name = NameOf(path);
    if (special.contains(name)) continue;
    JobConfig other = Job();
    ChangeAt(path, &other);
    const std::string difference = Disagreement(ListOf(other), "a", plain, "b");
    EXPECT_EQ(difference.empty(), MayDiffer(name)) << name << ": " << difference;
  }
}

TEST(JobAgreementTest, WhatMayDifferIsThere) {
  std::set<std::string> names;
  for (const NotComparedField& row : NotCompared()) {
    EXPECT_TRUE(names.insert(row.path).second) << row.path << " stands there twice";
    EXPECT_GT(std::strlen(row.why), 10U) << row.path;
    JobConfig config;
    std::vector<Path> leaves;
    Leaves(JobConfig::descriptor(), {}, &leaves);
    const bool is_there = std::any_of(leaves.begin(), leaves.end(), [&](const Path& path) {
      const std::string name = NameOf(path);
      return name == row.path || name.starts_with(std::string(row.path) + ".");
    });
    EXPECT_TRUE(is_there) << row.path << " is no field";
  }
}

TEST(JobAgreementTest, WhatABatchComesToIsCompared) {
  JobConfig each = Job();
  each.clear_global_batch_size();
  each.set_batch_size(16);
  EXPECT_EQ(ListOf(each), ListOf(Job()));
  each.set_batch_size(17);
  EXPECT_EQ(Disagreement(ListOf(each), "rank 1", ListOf(Job()), "rank 0"),
            "rank 1 has global_batch_size 34, rank 0 has 32");
}

TEST(JobAgreementTest, ArgumentsOfTheModelHaveNoOrder) {
  const auto with = [](const std::vector<std::pair<std::string, std::string>>& args) {
    JobConfig config = Job();
    for (const auto& [name, value] : args) {
      ModelArg* arg = config.mutable_model()->add_arg();
      arg->set_name(name);
      arg->set_value(value);
    }
    return ListOf(config);
  };
  EXPECT_EQ(with({{"hidden", "8"}, {"classes", "2"}}), with({{"classes", "2"}, {"hidden", "8"}}));
  EXPECT_EQ(Disagreement(with({{"hidden", "8"}}), "rank 1", with({}), "rank 0"),
            "rank 1 has model.hidden 8, rank 0 has none");
}

TEST(JobAgreementTest, DataIsComparedByNumbersThatAllHostsReadAlike) {
  EXPECT_EQ(ListOf(Job(), 2, TenSamples(1, 1)), ListOf(Job(), 2, TenSamples(2, 1)));
  EXPECT_THAT(Disagreement(ListOf(Job(), 2, TenSamples(0, 1)), "rank 1",
                           ListOf(Job(), 2, TenSamples(0, 2)), "rank 0"),
              StartsWith("rank 1 has data.samples (sha256 of some) "));
}

TEST(JobAgreementTest, LongValuesAreShortenedAndStillCompared) {
  JobConfig a = Job(), b = Job();
  const std::string words(500, 'x');
  a.mutable_optimizer()->add_decay_exclude(words + "1");
  b.mutable_optimizer()->add_decay_exclude(words + "2");
  const std::string difference = Disagreement(ListOf(a), "rank 1", ListOf(b), "rank 0");
  EXPECT_THAT(difference, StartsWith("rank 1 has optimizer.decay_exclude xxx"));
  EXPECT_LT(difference.size(), 250U);
}

TEST(DisagreementTest, NamesTheFirstAndCountsTheRest) {
  const Agreement a = {{"epochs", "1"}, {"seed", "2"}, {"zoo", ""}};
  EXPECT_EQ(Disagreement(a, "a", a, "b"), "");
  EXPECT_EQ(Disagreement(a, "a", {{"epochs", "3"}, {"seed", "1"}, {"zoo", ""}}, "b"),
            "a has epochs 1, b has 3 (1 more setting differs)");
  EXPECT_EQ(Disagreement(a, "a", {{"epochs", "1"}}, "b"),
            "a has seed 2, b has none (1 more setting differs)");
  EXPECT_EQ(Disagreement({}, "a", a, "b"), "a has epochs none, b has 1 (2 more differ)");
}

std::vector<Status> Agree(const std::vector<Agreement>& lists) {
  auto ranks = collective::MakeInprocCommunicators(static_cast<int>(lists.size()), {});
  std::vector<Status> statuses(lists.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < lists.size(); ++r) {
    threads.emplace_back([&, r] {
      statuses[r] = AgreeAmongRanks(*ranks[r], lists[r], SteadyNow() + std::chrono::seconds(60));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(AgreeAmongRanksTest, AllOfThemRefuseInTheSameWords) {
  JobConfig other = Job();
  other.set_seed(7);
  for (const Status& status : Agree({ListOf(Job()), ListOf(Job()), ListOf(Job())})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const Status& status : Agree({ListOf(Job()), ListOf(Job()), ListOf(other)})) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              "the settings of the ranks differ: rank 2 has seed 7, rank 0 has 1 [TD3011]; hint: "
              "give all ranks the same job file "
              "and flags");
  }
  // Agree must reject two lists of settings with different lengths.
  for (const Status& status : Agree({ListOf(Job()), {{"seed", "1"}}})) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  }
}

}  // namespace
}  // namespace tandem::trainer
