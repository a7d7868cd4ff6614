// Tests the parts of common/shm: memory that cannot be truncated, and sockets that pass this memory
// to another process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "common/shm/arena.h"
#include "common/shm/sealed_memory.h"
#include "common/shm/unix_socket.h"
#include "gmock/gmock.h"

namespace tandem::shm_rpc {
namespace {

using Others = SealedMemory::Others;

TEST(ArenaTest, PiecesAreFoundAndGivenBack) {
  alignas(4096) static std::byte memory[8 * 4096];
  const auto arena = std::make_shared<Arena>(memory, nullptr);
  EXPECT_EQ(arena->Allocate(sizeof(memory) + 1), nullptr);
  Buffer a = arena->Allocate(1), b = arena->Allocate(4097), c = arena->Allocate(0);
  EXPECT_EQ(a.get(), memory);
  EXPECT_EQ(b.get(), memory + 4096);
  EXPECT_EQ(c.get(), memory + 3 * 4096);
  EXPECT_EQ(arena->Allocate(5 * 4096), nullptr);
  EXPECT_EQ(arena->OffsetOf(b.get(), 8192), 4096);
  EXPECT_EQ(arena->OffsetOf(c.get(), sizeof(memory)), -1);
  const int elsewhere = 0;
  EXPECT_EQ(arena->OffsetOf(&elsewhere, 1), -1);
  b.reset();
  EXPECT_EQ(arena->Allocate(8192).get(), memory + 4096);
  a.reset();
  c.reset();  // after this all free pieces of the arena are joined
  EXPECT_EQ(arena->Allocate(sizeof(memory)).get(), memory);
}

TEST(SealedMemoryTest, NobodyShrinksIt) {
  const auto made = SealedMemory::Create("test", 8192, Others::kWrite);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(::ftruncate((*made)->fd(), 4096), 0);
  (*made)->bytes()[4096] = std::byte{7};
  const auto mapped = SealedMemory::Map(Fd(::dup((*made)->fd())), 8192, Others::kWrite);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ((*mapped)->bytes()[4096], std::byte{7});
  (*mapped)->bytes()[4097] = std::byte{8};
  EXPECT_EQ((*made)->bytes()[4097], std::byte{8});
}

TEST(SealedMemoryTest, OthersReadAndDoNotWrite) {
  const auto made = SealedMemory::Create("test", 4096, Others::kRead);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto mapped = SealedMemory::Map(Fd(::dup((*made)->fd())), 4096, Others::kRead);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  (*made)->bytes()[5] = std::byte{3};
  EXPECT_EQ((*mapped)->bytes()[5], std::byte{3});
  const int fd = (*mapped)->fd();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(::mprotect((*mapped)->bytes().data(), 4096, PROT_READ | PROT_WRITE), 0);
}

TEST(SealedMemoryTest, WhatIsNotSealedOrOfAnotherSizeIsRefused) {
  Fd loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 8192), 0);
  EXPECT_EQ(SealedMemory::Map(std::move(loose), 8192, Others::kWrite).status().code(),
            StatusCode::kPermissionDenied);
  const auto made = *SealedMemory::Create("test", 4096, Others::kRead);
  EXPECT_FALSE(SealedMemory::Map(Fd(::dup(made->fd())), 8192, Others::kRead).ok());
  EXPECT_FALSE(SealedMemory::Map(Fd(::dup(made->fd())), 4096, Others::kWrite).ok());
}

TEST(UnixSocketTest, HandsOverFileDescriptors) {
  const std::string name = "tandem-test-" + std::to_string(::getpid());
  auto listener = ListenAbstract(name, 1);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_FALSE(ListenAbstract(name, 1).ok());
  auto near = ConnectAbstract(name);
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_TRUE(IsSameUser(near->get()));
  const Fd far(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Time deadline = SteadyNow() + std::chrono::seconds(10);
  std::byte got[3];
  EXPECT_EQ(ReceiveFds(near->get(), got, 2, SteadyNow()).status().code(),
            StatusCode::kDeadlineExceeded);
  const auto memory = *SealedMemory::Create("test", 4096, Others::kWrite);
  const int fds[] = {memory->fd(), far.get()};
  ASSERT_TRUE(SendFds(far.get(), std::as_bytes(std::span("abc", 3)), fds).ok());
  auto received = ReceiveFds(near->get(), got, 2, deadline);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::memcmp(got, "abc", 3), 0);
  EXPECT_TRUE(SealedMemory::Map(std::move((*received)[0]), 4096, Others::kWrite).ok());
  // The message has one descriptor instead of two. The receiver must close this descriptor.
  ASSERT_TRUE(SendFds(far.get(), std::as_bytes(std::span("abc", 3)), {fds, 1}).ok());
  EXPECT_FALSE(ReceiveFds(near->get(), got, 2, deadline).ok());
  listener->Reset();
  EXPECT_EQ(ConnectAbstract(name).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::shm_rpc
