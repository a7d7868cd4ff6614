// The NCCL communicator with a stand-in NCCL on a stand-in device (tests/support/fake_nccl.cc,
// guarded_device_module.cc). Only copies and kernels can access the device's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "collective/nccl/nccl_communicator.h"
#include "kernels/exec/backend.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::HasSubstr;

std::string StandIn(const std::string& name) {
  return std::string(std::getenv("TANDEM_BIN_DIR")) + "/../tests/guarded_device/" + name;
}

// Sets an environment variable for the lifetime of the object.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto nccl = OpenNccl(StandIn("libnccl.so.2"));
    ASSERT_TRUE(nccl.ok()) << nccl.status();
    nccl_ = *nccl;
    auto backend = exec::Backend::Cuda(StandIn("libtandem_cuda.so"));
    ASSERT_TRUE(backend.ok()) << backend.status();
    auto device = backend->MakeDevice(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    log_ = testing::TempDir() + "/nccl_test." + std::to_string(getpid());
    logged_.emplace("TANDEM_FAKE_NCCL_LOG", log_);
  }
  void TearDown() override {
    ranks_.clear();
    std::filesystem::remove(log_);
  }

  void Connect(int size, NcclOptions options = {}) {
    ranks_.clear();
    controls_ = MakeInprocCommunicators(size);
    ranks_.resize(static_cast<size_t>(size));
    options.start_timeout = std::chrono::seconds(60);
    OnEveryRank(size, [&](int r) {
      auto made = ConnectNccl(nccl_, *device_, *controls_[static_cast<size_t>(r)], options);
      ASSERT_TRUE(made.ok()) << made.status();
      ranks_[static_cast<size_t>(r)] = *std::move(made);
    });
  }
  Communicator& Rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::string Log() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  template <typename T>
  Buffer OnDevice(const std::vector<T>& values) {
    auto buffer = device_->Allocate(values.size() * sizeof(T));
    EXPECT_TRUE(buffer.ok());
    EXPECT_TRUE(
        device_->CopyFromHost(buffer->get(), values.data(), values.size() * sizeof(T)).ok());
    return *buffer;
  }
  template <typename T>
  std::vector<T> FromDevice(const Buffer& buffer, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(device_->CopyToHost(values.data(), buffer.get(), count * sizeof(T)).ok());
    return values;
  }
  // Returns the status of the second allreduce on each rank. The caller must inject a fault into
  // this allreduce.
  std::vector<Status> SecondOperationOf(int size, const NcclOptions& options, size_t elements = 8) {
    Connect(size, options);
    std::vector<Status> said(static_cast<size_t>(size));
    // Without this barrier, the failure of one rank's second call could end another rank's first
    // call.
    std::barrier first_over(size);
    OnEveryRank(size, [&](int r) {
      const Buffer data = OnDevice(std::vector<float>(elements, 1.0f));
      const auto call = [&](const std::string& what) {
        return Rank(r)
            .AllReduce(data.get(), data.get(), elements, DType::kF32, ReduceOp::kSum,
                       {.what = what})
            ->Wait(In(60));
      };
      EXPECT_EQ(call("v"), OkStatus());
      first_over.arrive_and_wait();
      said[static_cast<size_t>(r)] = call("w");
      EXPECT_EQ(Rank(r).Barrier()->Wait(In(60)).code(), said[static_cast<size_t>(r)].code());
    });
    return said;
  }

  NcclLibrary nccl_{};
  std::unique_ptr<Device> device_;
  std::string log_;
  std::optional<Variable> logged_;
  World controls_, ranks_;  // `ranks_` is destroyed before `controls_`
};

float Awkward(int rank, size_t i) {
  return 1.0f / static_cast<float>(3 * i + 7 * static_cast<size_t>(rank) + 1) *
         (rank % 2 == 0 ? 1 : -1e3f);
}

TEST_F(NcclTest, EveryOperationOfEverySize) {
  for (const int size : {1, 2, 3}) {
    Connect(size);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{40000}}) {
      OnEveryRank(size, [&](int r) {
        const auto n = static_cast<size_t>(size);
        std::vector<int64_t> mine(count), sum(count), all;
        for (size_t i = 0; i < count; ++i) {
          mine[i] = static_cast<int64_t>(i) + 100 * r;
          sum[i] = static_cast<int64_t>(i) * size + 100 * (size * (size - 1) / 2);
        }
        for (int k = 0; k < size; ++k) {
          for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int64_t>(i) + 100 * k);
        }
        const Buffer in = OnDevice(mine), out = OnDevice(mine), spread = OnDevice(mine),
                     gathered = OnDevice(std::vector<int64_t>(count * n));
        const int root = size - 1;
        const auto reduced =
                       Rank(r).AllReduce(in.get(), out.get(), count, DType::kI64, ReduceOp::kSum),
                   sent = Rank(r).Broadcast(spread.get(), count, DType::kI64, root),
                   collected = Rank(r).AllGather(in.get(), gathered.get(), count, DType::kI64),
                   at_root =
                       Rank(r).Reduce(in.get(), in.get(), count, DType::kI64, ReduceOp::kSum, root),
                   met = Rank(r).Barrier();
        for (const auto& work : {reduced, sent, collected, at_root, met}) {
          ASSERT_EQ(work->Wait(In(60)), OkStatus());
        }
        EXPECT_EQ(FromDevice<int64_t>(out, count), sum);
        EXPECT_EQ(FromDevice<int64_t>(gathered, count * n), all);
        if (r == root) {
          EXPECT_EQ(FromDevice<int64_t>(in, count), sum);
        }
        for (size_t i = 0; i < count; ++i) mine[i] = static_cast<int64_t>(i) + 100 * root;
        EXPECT_EQ(FromDevice<int64_t>(spread, count), mine);
      });
    }
  }
}

TEST_F(NcclTest, ScattersAndMessages) {
  for (const int size : {1, 2, 3}) {
    Connect(size);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{40000}}) {
      OnEveryRank(size, [&](int r) {
        const size_t n = static_cast<size_t>(size);
        // Returns element i of the data that rank `from` sends to rank `to`.
        const auto value = [&](int from, int to, size_t i) {
          return static_cast<int64_t>(i) + 1000 * from + 100 * to;
        };
        std::vector<int64_t> mine, theirs, sum(count);
        for (int k = 0; k < size; ++k) {
          for (size_t i = 0; i < count; ++i) {
            mine.push_back(value(r, k, i));
            theirs.push_back(value(k, r, i));
            sum[i] += value(k, r, i);
          }
        }
        const Buffer in = OnDevice(mine), all = OnDevice(mine), place = OnDevice(mine),
                     scattered = OnDevice(std::vector<int64_t>(count)),
                     got = OnDevice(std::vector<int64_t>(count));
        std::byte* const own = place.get() + static_cast<size_t>(r) * count * sizeof(int64_t);
        ASSERT_EQ(Rank(r)
                      .ReduceScatter(in.get(), scattered.get(), count, DType::kI64, ReduceOp::kSum)
                      ->Wait(In(60)),
                  OkStatus());
        ASSERT_EQ(Rank(r)
                      .ReduceScatter(place.get(), own, count, DType::kI64, ReduceOp::kSum)
                      ->Wait(In(60)),
                  OkStatus());
        ASSERT_EQ(Rank(r).AllToAll(in.get(), all.get(), count, DType::kI64)->Wait(In(60)),
                  OkStatus());
        EXPECT_EQ(FromDevice<int64_t>(scattered, count), sum);
        EXPECT_EQ(FromDevice<int64_t>(all, count * n), theirs);
        std::vector<int64_t> part(count);
        EXPECT_TRUE(device_->CopyToHost(part.data(), own, count * sizeof(int64_t)).ok());
        EXPECT_EQ(part, sum);
        if (size == 1) return;
        const int next = (r + 1) % size, last = (r + size - 1) % size;
        ASSERT_EQ(
            Rank(r).SendRecv(in.get(), next, got.get(), last, count, DType::kI64)->Wait(In(60)),
            OkStatus());
        EXPECT_EQ(FromDevice<int64_t>(got, count), [&] {
          std::vector<int64_t> first(count);
          for (size_t i = 0; i < count; ++i) first[i] = value(last, 0, i);
          return first;
        }());
        if (count == 0) return;
        for (const auto& refused :
             {Rank(r).AllToAll(in.get(), in.get(), count, DType::kI64),
              Rank(r).SendRecv(in.get(), next, in.get(), last, count, DType::kI64)}) {
          const Status status = refused->Wait(In(60));
          EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr("NCCL does not support this operation in place"));
        }
      });
    }
  }
}

// The sum of two ranks has the same bits on hosts and on the device, whichever rank computes the
// sum.
TEST_F(NcclTest, TheBitsOfHosts) {
  Connect(2);
  World hosts = MakeInprocCommunicators(2);
  const size_t count = 70001;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    OnEveryRank(2, [&](int r) {
      std::vector<std::byte> mine(count * SizeOf(dtype));
      for (size_t i = 0; i < count; ++i) {
        const float value = Awkward(r, i);
        const uint16_t half = dtype == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
        const void* from = dtype == DType::kF32 ? static_cast<const void*>(&value) : &half;
        std::memcpy(mine.data() + i * SizeOf(dtype), from, SizeOf(dtype));
      }
      const Buffer data = OnDevice(mine);
      ASSERT_EQ(
          Rank(r).AllReduce(data.get(), data.get(), count, dtype, ReduceOp::kSum)->Wait(In(60)),
          OkStatus());
      ASSERT_EQ(hosts[static_cast<size_t>(r)]
                    ->AllReduce(mine.data(), mine.data(), count, dtype, ReduceOp::kSum)
                    ->Wait(In(60)),
                OkStatus());
      EXPECT_EQ(FromDevice<std::byte>(data, mine.size()), mine) << Name(dtype);
    });
  }
}

TEST_F(NcclTest, PiecesTravelTogether) {
  Connect(2);
  OnEveryRank(2, [&](int r) {
    const Buffer a = OnDevice<int32_t>({1, 2}), b = OnDevice<int32_t>({3}),
                 c = OnDevice<int32_t>({4, 5, 6});
    Collective call;
    call.op = CollectiveOp::kAllReduce;
    call.dtype = DType::kI32;
    call.in = call.out = a.get();
    call.count = 2;
    call.more = {{b.get(), b.get(), 1}, {c.get(), c.get(), 3}};
    call.what = "a and 2 more";
    EXPECT_EQ(ToString(call), "AllReduce(sum, i32[6]) of \"a and 2 more\"");
    ASSERT_EQ(Rank(r).Start(call)->Wait(In(60)), OkStatus());
    EXPECT_EQ(FromDevice<int32_t>(a, 2), (std::vector<int32_t>{2, 4}));
    EXPECT_EQ(FromDevice<int32_t>(b, 1), (std::vector<int32_t>{6}));
    EXPECT_EQ(FromDevice<int32_t>(c, 3), (std::vector<int32_t>{8, 10, 12}));
    // The host communicators do not support several buffers in one call.
    EXPECT_EQ(controls_[static_cast<size_t>(r)]->Start(call)->Wait(In(60)).code(),
              StatusCode::kInvalidArgument);
    call.more[1].out = c.get() + 4;
    EXPECT_EQ(Rank(r).Start(call)->Wait(In(60)).code(), StatusCode::kInvalidArgument);
  });
  EXPECT_THAT(Log(), HasSubstr("group of 3"));
}

TEST_F(NcclTest, GroupsOfRanks) {
  for (const HierarchyForm form : {HierarchyForm::kLeaders, HierarchyForm::kShards}) {
    for (const auto& [size, group] : {std::pair{4, 2}, {6, 3}, {2, 2}}) {
      Connect(size, {.group = group, .form = form});
      for (const size_t count : {size_t{1}, size_t{7}, size_t{50000}}) {
        OnEveryRank(size, [&, size = size](int r) {
          std::vector<int32_t> mine(count), sum(count);
          for (size_t i = 0; i < count; ++i) {
            mine[i] = static_cast<int32_t>(i) * (r + 1);
            sum[i] = static_cast<int32_t>(i) * (size * (size + 1) / 2);
          }
          const Buffer in = OnDevice(mine), out = OnDevice(mine), place = OnDevice(mine);
          const auto a = Rank(r).AllReduce(in.get(), out.get(), count, DType::kI32, ReduceOp::kSum),
                     b = Rank(r).AllReduce(place.get(), place.get(), count, DType::kI32,
                                           ReduceOp::kSum);
          ASSERT_EQ(a->Wait(In(60)), OkStatus());
          ASSERT_EQ(b->Wait(In(60)), OkStatus());
          EXPECT_EQ(FromDevice<int32_t>(out, count), sum);
          EXPECT_EQ(FromDevice<int32_t>(place, count), sum);
          EXPECT_EQ(FromDevice<int32_t>(in, count), mine);
        });
      }
    }
  }
  EXPECT_THAT(Log(), HasSubstr("reduce_scatter rank 2 of 3 count 16666"));
  EXPECT_THAT(Log(), HasSubstr("reduce rank 2 of 3 count 50000"));
}

TEST_F(NcclTest, AStuckOperationEndsByItsDeadline) {
  const Variable fault("TANDEM_FAKE_NCCL_FAULT", "hang:1:2");
  NcclOptions options;
  options.operation_timeout = std::chrono::milliseconds(1500);
  options.number = 5;
  const std::vector<Status> said = SecondOperationOf(2, options);
  for (int r = 0; r < 2; ++r) {
    const std::string message(said[static_cast<size_t>(r)].message());
    EXPECT_THAT(message, HasSubstr(absl::StrFormat(
                             "nccl communicator 5, rank %d of 2, AllReduce(sum, f32[8]) of \"w\", "
                             "operation 2: ",
                             r)));
    EXPECT_THAT(message, HasSubstr("has not finished after 1.5 s"));
  }
  EXPECT_THAT(Log(), HasSubstr("abort\nabort\n"));
}

// Each rank has several communicators. The fault makes one communicator hang. Another communicator,
// which handles one element, is aborted first.
TEST_F(NcclTest, AStuckGroupEndsByItsDeadline) {
  const Variable fault("TANDEM_FAKE_NCCL_FAULT", "hang:1:3");
  NcclOptions options;
  options.operation_timeout = std::chrono::milliseconds(500);
  options.group = 2;
  for (const Status& status : SecondOperationOf(4, options, 9)) EXPECT_FALSE(status.ok());
}

TEST_F(NcclTest, ErrorsOfNcclEndTheOperationOnAllRanks) {
  const Variable fault("TANDEM_FAKE_NCCL_FAULT", "error:0:2");
  const std::vector<Status> said = SecondOperationOf(3, {});
  for (const Status& status : said) {
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("remote process exited or there was a network error: the fault that was"));
  }
  EXPECT_EQ(said[0].code(), StatusCode::kUnavailable);
}

TEST_F(NcclTest, AbortNamesTheReason) {
  Connect(2);
  OnEveryRank(2, [&](int r) {
    if (r == 1) return Rank(1).Abort("out of data");
    const Buffer data = OnDevice(std::vector<float>(8));
    const Status status =
        Rank(0).AllReduce(data.get(), data.get(), 8, DType::kF32, ReduceOp::kSum)->Wait(In(60));
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("out of data"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  });
}

// A rank that leaves in an orderly way does not make the other ranks fail. A rank that waits for
// the missing rank gets an error after the deadline.
TEST_F(NcclTest, ARankThatLeftIsMissed) {
  NcclOptions options;
  options.operation_timeout = std::chrono::milliseconds(1500);
  Connect(3, options);
  OnEveryRank(3, [&](int r) {
    if (r == 1) {
      ranks_[1].reset();
      controls_[1].reset();
      return;
    }
    const Status status = Rank(r).Barrier({.what = "end"})->Wait(In(60));
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("a rank is missing or hangs"));
  });
}

TEST_F(NcclTest, AMissingRankIsAnErrorAtTheStart) {
  const World controls = MakeInprocCommunicators(2);
  NcclOptions options;
  options.start_timeout = std::chrono::milliseconds(200);
  const auto made = ConnectNccl(nccl_, *device_, *controls[0], options);
  EXPECT_EQ(made.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("NCCL's unique ids"));
}

TEST(NcclLibraryTest, WhatIsMissingIsNamed) {
  const Status absent = OpenNccl("/nowhere/libnccl.so.2").status();
  EXPECT_EQ(absent.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(absent.message()), HasSubstr("NCCL (libnccl.so.2)"));
  EXPECT_THAT(std::string(absent.message()), HasSubstr("/nowhere/libnccl.so.2"));
  const Status other = OpenNccl(StandIn("libtandem_cuda.so")).status();
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("the loaded library has no function ncclGetVersion"));
  EXPECT_EQ(NcclVersionText(22809), "2.28.9");
}

}  // namespace
}  // namespace tandem::collective
