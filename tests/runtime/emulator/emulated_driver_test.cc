// The table of driver functions of an emulated GPU, with kernels in PTX.
#include "runtime/emulator/emulated_driver.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/emulator/driver_results.h"

namespace duotone::emulator {
namespace {

using namespace runtime;  // NOLINT: the driver's names
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kHead[] = ".version 8.0\n.target sm_75\n.address_size 64\n";

// `add(x, n, value)`: each of n words of x grows by value. It looks at no bound but n.
constexpr char kAdd[] = R"(
.visible .entry add(.param .u64 x, .param .u32 n, .param .u32 value) .maxntid 256
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r2, [value];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r6, %r1;
  @%p1 bra $done;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r6, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r7, [%rd4];
  add.s32 %r7, %r7, %r2;
  st.global.u32 [%rd4], %r7;
$done:
  ret;
}
)";

// 1 KB of static shared memory, and what it is given.
constexpr char kShared[] = R"(
.extern .shared .align 16 .b8 dynamic[];
.visible .entry shared(.param .u64 x)
{
  .shared .align 4 .b8 fixed[1024];
  .reg .b32 %r<2>;
  mov.u32 %r1, 1;
  st.shared.u32 [fixed], %r1;
  st.shared.u32 [dynamic], %r1;
  ret;
}
)";

struct Shape {
  unsigned grid = 1;
  unsigned block = 32;
  unsigned shared = 0;
};

class EmulatedDriverTest : public testing::Test {
 protected:
  void SetUp() override { Open({.architecture = "sm_80", .threads = 1, .memory_bytes = 1 << 20}); }
  void TearDown() override {
    if (driver_ == nullptr) return;
    driver_->CtxSetCurrent(nullptr);
    driver_->DevicePrimaryCtxRelease(0);
  }

  void Open(const EmulatorOptions& options) {
    const auto gpu = EmulatedGpu::Create(options);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *gpu;
    driver_ = gpu_->driver();
    ASSERT_EQ(driver_->Init(0), kCuSuccess);
    ASSERT_EQ(driver_->DevicePrimaryCtxRetain(&context_, 0), kCuSuccess);
    ASSERT_EQ(driver_->CtxSetCurrent(context_), kCuSuccess);
  }

  CuDeviceAddress Words(const std::vector<uint32_t>& values) {
    CuDeviceAddress address = 0;
    EXPECT_EQ(driver_->MemAlloc(&address, 4 * values.size()), kCuSuccess);
    EXPECT_EQ(driver_->MemcpyHtoD(address, values.data(), 4 * values.size()), kCuSuccess);
    return address;
  }
  std::vector<uint32_t> ReadWords(CuDeviceAddress address, size_t count) {
    std::vector<uint32_t> values(count);
    EXPECT_EQ(driver_->MemcpyDtoH(values.data(), address, 4 * count), kCuSuccess);
    return values;
  }
  uint32_t ReadWord(CuDeviceAddress address) { return ReadWords(address, 1)[0]; }
  CuStream NewStream(unsigned flags = kCuStreamNonBlocking) {
    CuStream stream = nullptr;
    EXPECT_EQ(driver_->StreamCreate(&stream, flags), kCuSuccess);
    return stream;
  }
  CuEvent NewEvent() {
    CuEvent event = nullptr;
    EXPECT_EQ(driver_->EventCreate(&event, 0), kCuSuccess);
    return event;
  }
  CuModule LoadText(const std::string& ptx) {
    const absl::StatusOr<CuModule> module = LoadModule(*driver_, ptx, "the test's PTX");
    EXPECT_TRUE(module.ok()) << module.status();
    return module.ok() ? *module : nullptr;
  }
  CuFunction LoadKernel(const std::string& text, const char* name) {
    CuFunction function = nullptr;
    module_ = LoadText(kHead + text);
    EXPECT_EQ(driver_->ModuleGetFunction(&function, module_, name), kCuSuccess);
    return function;
  }
  CuResult Add(CuFunction function, CuDeviceAddress x, unsigned n, unsigned value, CuStream stream,
               Shape shape = {}) {
    std::array<void*, 3> parameters = {&x, &n, &value};
    return driver_->LaunchKernel(function, shape.grid, 1, 1, shape.block, 1, 1, shape.shared,
                                 stream, parameters.data(), nullptr);
  }
  std::string ErrorText(CuResult result) {
    const char* text = nullptr;
    EXPECT_EQ(driver_->GetErrorString(result, &text), kCuSuccess);
    return text == nullptr ? "" : text;
  }
  // Records `add` of 1 to a word.
  CuGraphExec RecordAdd(CuFunction add, CuDeviceAddress x, CuStream stream) {
    CuGraph graph = nullptr;
    CuGraphExec exec = nullptr;
    EXPECT_EQ(driver_->StreamBeginCapture(stream, kCuStreamCaptureModeThreadLocal), kCuSuccess);
    EXPECT_EQ(Add(add, x, 1, 1, stream), kCuSuccess);
    EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuSuccess);
    EXPECT_EQ(driver_->GraphInstantiateWithFlags(&exec, graph, 0), kCuSuccess);
    EXPECT_EQ(driver_->GraphDestroy(graph), kCuSuccess);
    return exec;
  }

  std::shared_ptr<EmulatedGpu> gpu_;
  std::shared_ptr<const Driver> driver_;
  CuContext context_ = nullptr;
  CuModule module_ = nullptr;
};

// ---- The device

TEST(EmulatedGpu, AnUnknownArchitectureIsNamedWithThoseThatThereAre) {
  const absl::Status status = EmulatedGpu::Create({.architecture = "sm_70"}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("sm_75, sm_80, sm_86, sm_89, sm_90"));
}

TEST_F(EmulatedDriverTest, SaysWhatTheArchitectureIs) {
  const auto attribute = [&](int which) {
    int value = -1;
    EXPECT_EQ(driver_->DeviceGetAttribute(&value, which, 0), kCuSuccess) << which;
    return value;
  };
  EXPECT_EQ(attribute(kCuComputeCapabilityMajor), 8);
  EXPECT_EQ(attribute(kCuComputeCapabilityMinor), 0);
  EXPECT_EQ(attribute(kCuMultiprocessorCount), 108);
  EXPECT_EQ(attribute(kCuMaxSharedMemoryPerBlockOptin), 163 << 10);
  EXPECT_EQ(attribute(kCuMaxSharedMemoryPerMultiprocessor), 164 << 10);
  EXPECT_EQ(attribute(kCuMaxThreadsPerBlock), 1024);
  // Two transfers per clock.
  EXPECT_NEAR(2e3 * attribute(kCuMemoryClockRate) * attribute(kCuGlobalMemoryBusWidth) / 8, 1555e9,
              1e9);
  int value = 0;
  EXPECT_EQ(driver_->DeviceGetAttribute(&value, 99999, 0), kCuInvalidValue);
  EXPECT_EQ(driver_->DeviceGetAttribute(&value, kCuClockRate, 1), kCuInvalidDevice);
  char name[64] = {};
  EXPECT_EQ(driver_->DeviceGetName(name, sizeof(name), 0), kCuSuccess);
  EXPECT_STREQ(name, "emulated A100");
  CuDevice device = -1;
  EXPECT_EQ(driver_->DeviceGet(&device, 0), kCuSuccess);
  EXPECT_EQ(driver_->DeviceGet(&device, 1), kCuInvalidDevice);
  int count = 0, version = 0;
  EXPECT_EQ(driver_->DeviceGetCount(&count), kCuSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(driver_->DriverGetVersion(&version), kCuSuccess);
  EXPECT_EQ(version, driver_->version);
}

TEST_F(EmulatedDriverTest, CallsNeedAContext) {
  CuDeviceAddress address = 0;
  ASSERT_EQ(driver_->CtxSetCurrent(nullptr), kCuSuccess);
  EXPECT_EQ(driver_->MemAlloc(&address, 64), kCuInvalidContext);
  EXPECT_EQ(driver_->CtxSetCurrent(reinterpret_cast<CuContext>(this)), kCuInvalidContext);
  ASSERT_EQ(driver_->CtxSetCurrent(context_), kCuSuccess);
  CuContext current = nullptr;
  EXPECT_EQ(driver_->CtxGetCurrent(&current), kCuSuccess);
  EXPECT_EQ(current, context_);
  // The context of one thread is not that of another.
  std::thread([&] { EXPECT_EQ(driver_->MemAlloc(&address, 64), kCuInvalidContext); }).join();
}

TEST_F(EmulatedDriverTest, TheLastReleaseFreesEverything) {
  CuDeviceAddress address = 0;
  ASSERT_EQ(driver_->MemAlloc(&address, 512), kCuSuccess);
  NewStream();
  LoadText(std::string(kHead) + kAdd);
  EXPECT_EQ(gpu_->machine().memory().used(), 512);
  EXPECT_EQ(driver_->DevicePrimaryCtxRelease(0), kCuSuccess);
  EXPECT_EQ(gpu_->machine().memory().used(), 0);
  EXPECT_EQ(driver_->DevicePrimaryCtxRelease(0), kCuInvalidContext);
  ASSERT_EQ(driver_->DevicePrimaryCtxRetain(&context_, 0), kCuSuccess);
  EXPECT_EQ(driver_->MemFree(address), kCuInvalidValue);
}

// ---- Memory

TEST_F(EmulatedDriverTest, MemoryHasASize) {
  size_t free = 0, total = 0;
  CuDeviceAddress address = 0;
  ASSERT_EQ(driver_->MemAlloc(&address, 4096), kCuSuccess);
  EXPECT_EQ(driver_->MemGetInfo(&free, &total), kCuSuccess);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_EQ(free, total - 4096);
  CuDeviceAddress other = 0;
  EXPECT_EQ(driver_->MemAlloc(&other, size_t{1} << 20), kCuOutOfMemory);
  EXPECT_EQ(driver_->MemAlloc(&other, ~size_t{0}), kCuOutOfMemory);
  EXPECT_EQ(driver_->MemAlloc(&other, 0), kCuInvalidValue);
  EXPECT_EQ(driver_->MemFree(address), kCuSuccess);
  EXPECT_EQ(driver_->MemFree(address), kCuInvalidValue) << "it is freed already";
  EXPECT_EQ(driver_->MemFree(0), kCuSuccess);
}

TEST_F(EmulatedDriverTest, CopiesAndFills) {
  const CuDeviceAddress x = Words({1, 2, 3, 4}), y = Words({0, 0, 0, 0});
  const CuStream stream = NewStream();
  EXPECT_EQ(driver_->MemcpyDtoDAsync(y, x, 16, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemsetD8Async(y, 0x11, 1, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemsetD16Async(y + 4, 0x2222, 1, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemsetD32Async(y + 8, 0x33333333, 1, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemsetD32Async(y + 2, 0, 1, stream), kCuInvalidValue) << "misaligned";
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_THAT(ReadWords(y, 4), ElementsAre(0x11, 0x2222, 0x33333333, 4));
}

TEST_F(EmulatedDriverTest, ACopyBesideMemoryIsAnErrorOfTheCall) {
  const CuDeviceAddress x = Words({1, 2});
  std::array<char, 64> bytes = {};
  EXPECT_EQ(driver_->MemcpyHtoD(x, bytes.data(), 64), kCuInvalidValue);
  EXPECT_EQ(driver_->MemcpyDtoH(bytes.data(), 42, 4), kCuInvalidValue);
  EXPECT_THAT(ReadWords(x, 2), ElementsAre(1, 2));
}

// Work that is given to a stream has not happened before somebody waits for it.
TEST_F(EmulatedDriverTest, PinnedMemoryIsReadWhenTheCopyRuns) {
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  void* pinned = nullptr;
  ASSERT_EQ(driver_->MemHostAlloc(&pinned, 4, 0), kCuSuccess);
  uint32_t& word = *static_cast<uint32_t*>(pinned);
  word = 1;
  EXPECT_EQ(driver_->MemcpyHtoDAsync(x, pinned, 4, stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 0u) << "a copy without a stream does not wait for this one";
  word = 2;
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 2u);
  word = 0;
  EXPECT_EQ(driver_->MemcpyDtoHAsync(pinned, x, 4, stream), kCuSuccess);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(word, 2u);
  EXPECT_EQ(driver_->MemFreeHost(pinned), kCuSuccess);
  EXPECT_EQ(driver_->MemFreeHost(&word), kCuInvalidValue);
}

TEST_F(EmulatedDriverTest, OtherHostMemoryIsCopiedBeforeTheCallReturns) {
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  uint32_t word = 5;
  EXPECT_EQ(driver_->MemcpyHtoDAsync(x, &word, 4, stream), kCuSuccess);
  word = 6;
  uint32_t result = 0;
  EXPECT_EQ(driver_->MemcpyDtoHAsync(&result, x, 4, stream), kCuSuccess);
  EXPECT_EQ(result, 5u);
}

TEST_F(EmulatedDriverTest, MemoryThatIsGivenAwayTooEarlyShows) {
  void* pinned = nullptr;
  ASSERT_EQ(driver_->MemHostAlloc(&pinned, 4, 0), kCuSuccess);
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  ASSERT_EQ(driver_->MemcpyDtoHAsync(pinned, x, 4, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemFreeHost(pinned), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuIllegalAddress);
  EXPECT_THAT(ErrorText(kCuIllegalAddress), HasSubstr("pinned host memory that has been freed"));
}

// ---- Streams and events

TEST_F(EmulatedDriverTest, AskingRunsAPieceAtATime) {
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  const CuEvent event = NewEvent();
  EXPECT_EQ(driver_->EventQuery(event), kCuSuccess) << "never recorded";
  EXPECT_EQ(driver_->StreamQuery(stream), kCuSuccess);
  driver_->MemsetD32Async(x, 1, 1, stream);
  driver_->MemsetD32Async(x, 2, 1, stream);
  EXPECT_EQ(driver_->EventRecord(event, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamQuery(stream), kCuNotReady);
  EXPECT_EQ(ReadWord(x), 1u);
  EXPECT_EQ(driver_->EventQuery(event), kCuNotReady);
  EXPECT_EQ(ReadWord(x), 2u);
  EXPECT_EQ(driver_->EventQuery(event), kCuNotReady);
  EXPECT_EQ(driver_->EventQuery(event), kCuSuccess);
  EXPECT_EQ(driver_->StreamQuery(stream), kCuSuccess);
}

TEST_F(EmulatedDriverTest, WaitingForAnEventRunsWhatIsBeforeItAlone) {
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  const CuEvent event = NewEvent();
  driver_->MemsetD32Async(x, 1, 1, stream);
  driver_->EventRecord(event, stream);
  driver_->MemsetD32Async(x, 2, 1, stream);
  EXPECT_EQ(driver_->EventSynchronize(event), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 1u);
  EXPECT_EQ(driver_->CtxSynchronize(), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 2u);
}

TEST_F(EmulatedDriverTest, AStreamWaitsForTheEventOfAnotherOne) {
  const CuDeviceAddress x = Words({0}), y = Words({0});
  const CuStream first = NewStream(), second = NewStream();
  const CuEvent event = NewEvent();
  driver_->MemsetD32Async(x, 7, 1, first);
  driver_->EventRecord(event, first);
  driver_->MemsetD32Async(x, 8, 1, first);
  driver_->StreamWaitEvent(second, event, 0);
  driver_->MemcpyDtoDAsync(y, x, 4, second);
  EXPECT_EQ(driver_->StreamSynchronize(second), kCuSuccess);
  EXPECT_EQ(ReadWord(y), 7u);
  EXPECT_EQ(ReadWord(x), 7u);
}

// The same without the wait: old data, every time.
TEST_F(EmulatedDriverTest, AStreamThatDoesNotWaitReadsOldData) {
  const CuDeviceAddress x = Words({0}), y = Words({1});
  const CuStream first = NewStream(), second = NewStream();
  driver_->MemsetD32Async(x, 7, 1, first);
  driver_->MemcpyDtoDAsync(y, x, 4, second);
  EXPECT_EQ(driver_->StreamSynchronize(second), kCuSuccess);
  EXPECT_EQ(ReadWord(y), 0u);
}

TEST_F(EmulatedDriverTest, AnEventThatIsGoneIsStillReached) {
  const CuDeviceAddress x = Words({0});
  const CuStream first = NewStream(), second = NewStream();
  const CuEvent event = NewEvent();
  driver_->MemsetD32Async(x, 7, 1, first);
  driver_->EventRecord(event, first);
  driver_->StreamWaitEvent(second, event, 0);
  EXPECT_EQ(driver_->EventDestroy(event), kCuSuccess);
  EXPECT_EQ(driver_->EventDestroy(event), kCuInvalidHandle);
  EXPECT_EQ(driver_->StreamSynchronize(second), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 7u);
}

TEST_F(EmulatedDriverTest, TheDefaultStreamIsInOrderWithBlockingStreams) {
  const CuDeviceAddress x = Words({0}), y = Words({0});
  const CuStream blocking = NewStream(0), other = NewStream();
  driver_->MemsetD32Async(x, 3, 1, blocking);
  driver_->MemsetD32Async(y, 4, 1, other);
  EXPECT_EQ(driver_->MemcpyDtoDAsync(y, x, 4, nullptr), kCuSuccess);
  EXPECT_EQ(ReadWord(y), 3u);
  EXPECT_EQ(driver_->StreamDestroy(other), kCuSuccess);
  EXPECT_EQ(ReadWord(y), 4u) << "a stream that goes finishes its work";
}

TEST_F(EmulatedDriverTest, LongQueuesRun) {
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  for (unsigned i = 1; i <= 2000; ++i) {
    ASSERT_EQ(driver_->MemsetD32Async(x, i, 1, stream), kCuSuccess);
  }
  EXPECT_EQ(ReadWord(x), 2000u - 1024u);
}

TEST_F(EmulatedDriverTest, EventsHaveTimes) {
  const CuStream stream = NewStream();
  const CuEvent begin = NewEvent(), end = NewEvent();
  CuEvent untimed = nullptr;
  float milliseconds = -1;
  ASSERT_EQ(driver_->EventCreate(&untimed, kCuEventDisableTiming), kCuSuccess);
  EXPECT_EQ(driver_->EventElapsedTime(&milliseconds, begin, end), kCuInvalidHandle);
  for (CuEvent event : {begin, end, untimed}) driver_->EventRecord(event, stream);
  EXPECT_EQ(driver_->EventElapsedTime(&milliseconds, begin, end), kCuNotReady);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(driver_->EventElapsedTime(&milliseconds, begin, end), kCuSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(driver_->EventElapsedTime(&milliseconds, begin, untimed), kCuInvalidHandle);
}

// ---- Modules

TEST_F(EmulatedDriverTest, MachineCodeIsNotForThisDevice) {
  CuModule module = nullptr;
  EXPECT_EQ(driver_->ModuleLoadDataEx(&module,
                                      "\x7f"
                                      "ELF and more",
                                      0, nullptr, nullptr),
            kCuNoBinaryForGpu);
  EXPECT_THAT(ErrorText(kCuNoBinaryForGpu), HasSubstr("PTX"));
}

TEST_F(EmulatedDriverTest, TheLogSaysWhatPtxIsNotKnown) {
  const absl::Status status =
      LoadModule(*driver_, absl::StrCat(kHead, ".visible .entry k() {\n  bogus.u32 %r1;\n}\n"),
                 "the PTX")
          .status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("loading the PTX: CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("The driver's log:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("bogus"));
  EXPECT_EQ(gpu_->machine().memory().used(), 0);
}

TEST_F(EmulatedDriverTest, AShortLogIsCut) {
  std::array<char, 16> log;
  log.fill('x');
  std::array<int, 2> options = {kCuJitErrorLogBuffer, kCuJitErrorLogBufferSizeBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(8)};
  CuModule module = nullptr;
  EXPECT_EQ(driver_->ModuleLoadDataEx(&module, "nonsense", 2, options.data(), values.data()),
            kCuInvalidPtx);
  EXPECT_EQ(std::strlen(log.data()), 7u);
  EXPECT_EQ(log[8], 'x');
}

TEST_F(EmulatedDriverTest, KernelsAreFoundByName) {
  const CuFunction add = LoadKernel(kAdd, "add");
  EXPECT_NE(add, nullptr);
  CuFunction function = nullptr;
  EXPECT_EQ(driver_->ModuleGetFunction(&function, module_, "sub"), kCuNotFound);
  EXPECT_THAT(ErrorText(kCuNotFound), HasSubstr("'sub'"));
  EXPECT_EQ(driver_->ModuleUnload(module_), kCuSuccess);
  EXPECT_EQ(Add(add, Words({1}), 1, 1, NewStream()), kCuInvalidHandle);
}

TEST_F(EmulatedDriverTest, FunctionsHaveAttributes) {
  const auto attribute = [&](CuFunction function, int which) {
    int value = -1;
    EXPECT_EQ(driver_->FuncGetAttribute(&value, which, function), kCuSuccess) << which;
    return value;
  };
  const CuFunction add = LoadKernel(kAdd, "add"), shared = LoadKernel(kShared, "shared");
  EXPECT_EQ(attribute(add, kCuFunctionMaxThreadsPerBlock), 256);
  EXPECT_EQ(attribute(shared, kCuFunctionMaxThreadsPerBlock), 1024);
  EXPECT_EQ(attribute(add, kCuFunctionSharedSizeBytes), 0);
  EXPECT_EQ(attribute(shared, kCuFunctionSharedSizeBytes), 1024);
  EXPECT_EQ(attribute(add, kCuFunctionLocalSizeBytes), 0);
  EXPECT_EQ(attribute(add, kCuFunctionMaxDynamicSharedSizeBytes), 48 << 10);
  EXPECT_EQ(attribute(shared, kCuFunctionMaxDynamicSharedSizeBytes), 47 << 10);
  const int registers = attribute(add, kCuFunctionNumRegs);
  EXPECT_EQ(registers % 8, 0);
  EXPECT_GE(registers, 16);
  EXPECT_LE(registers, 32) << "at most 15 words of it are alive at a time";
  int value = 0, blocks = 0;
  EXPECT_EQ(driver_->FuncGetAttribute(&value, 777, add), kCuInvalidValue);
  // 2048 threads, limited by nothing else.
  EXPECT_EQ(driver_->OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0), kCuSuccess);
  EXPECT_EQ(blocks, 8);
  EXPECT_EQ(driver_->OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 80 << 10),
            kCuSuccess);
  EXPECT_EQ(blocks, 2);
}

// ---- Launches

TEST_F(EmulatedDriverTest, ParametersAreThoseOfTheCall) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({1, 2, 3});
  const CuStream stream = NewStream();
  EXPECT_EQ(Add(add, x, 3, 10, stream, {.grid = 2, .block = 2}), kCuSuccess);
  EXPECT_EQ(Add(add, x, 1, 100, stream), kCuSuccess);
  EXPECT_THAT(ReadWords(x, 3), ElementsAre(1, 2, 3)) << "nobody has waited";
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_THAT(ReadWords(x, 3), ElementsAre(111, 12, 13));
  EXPECT_EQ(gpu_->machine().records().front()->launches, 2);
}

TEST_F(EmulatedDriverTest, LimitsAreThoseOfTheDevice) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({1});
  const CuStream stream = NewStream();
  EXPECT_EQ(Add(add, x, 1, 1, stream, {.grid = 0}), kCuInvalidValue);
  EXPECT_THAT(ErrorText(kCuInvalidValue), HasSubstr("grid.x is 0"));
  EXPECT_EQ(Add(add, x, 1, 1, stream, {.block = 0}), kCuInvalidValue);
  EXPECT_EQ(Add(add, x, 1, 1, stream, {.block = 257}), kCuInvalidValue);
  EXPECT_THAT(ErrorText(kCuInvalidValue), HasSubstr("257 threads"));
  EXPECT_EQ(Add(add, x, 1, 1, stream, {.grid = 0x80000000u}), kCuInvalidValue);
  EXPECT_EQ(driver_->LaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
            kCuInvalidValue);
  EXPECT_THAT(ErrorText(kCuInvalidValue), HasSubstr("parameter 0"));
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 1u);
  EXPECT_THAT(gpu_->machine().records(), IsEmpty());
}

TEST_F(EmulatedDriverTest, SharedMemoryAbove48KbMustBeAskedFor) {
  const CuFunction shared = LoadKernel(kShared, "shared");
  CuDeviceAddress x = 0;
  std::array<void*, 1> parameters = {&x};
  const auto launch = [&](unsigned bytes) {
    return driver_->LaunchKernel(shared, 1, 1, 1, 1, 1, 1, bytes, nullptr, parameters.data(),
                                 nullptr);
  };
  const auto allow = [&](int bytes) {
    return driver_->FuncSetAttribute(shared, kCuFunctionMaxDynamicSharedSizeBytes, bytes);
  };
  EXPECT_EQ(launch(47 << 10), kCuSuccess);
  EXPECT_EQ(launch(48 << 10), kCuInvalidValue);
  EXPECT_THAT(ErrorText(kCuInvalidValue), HasSubstr("may have 48128"));
  EXPECT_EQ(allow(163 << 10), kCuInvalidValue) << "1 KB of it is static";
  EXPECT_EQ(allow(162 << 10), kCuSuccess);
  EXPECT_EQ(launch(162 << 10), kCuSuccess);
  EXPECT_EQ(driver_->FuncSetAttribute(shared, kCuFunctionNumRegs, 1), kCuInvalidValue);
}

// ---- What goes wrong in kernels

TEST_F(EmulatedDriverTest, AProblemOfAKernelBreaksTheContext) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({1, 2});
  const CuStream stream = NewStream();
  EXPECT_EQ(Add(add, x, 200, 1, stream, {.block = 256}), kCuSuccess) << "it has not run yet";
  const CuResult result = driver_->StreamSynchronize(stream);
  EXPECT_EQ(result, kCuIllegalAddress);
  const absl::Status status = driver_->Check(result, "waiting");
  EXPECT_THAT(std::string(status.message()),
              StartsWith("waiting: CUDA_ERROR_ILLEGAL_ADDRESS (2 problems: out of bounds in kernel "
                         "add, "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ld.global.u32"));
  // From now on every call says so.
  CuDeviceAddress other = 0;
  EXPECT_EQ(driver_->MemAlloc(&other, 16), kCuIllegalAddress);
  EXPECT_EQ(driver_->CtxSetCurrent(context_), kCuIllegalAddress);
  EXPECT_THAT(ErrorText(kCuIllegalAddress), HasSubstr("out of bounds in kernel add"));
  // A new context works.
  EXPECT_EQ(driver_->DevicePrimaryCtxRelease(0), kCuSuccess);
  ASSERT_EQ(driver_->DevicePrimaryCtxRetain(&context_, 0), kCuSuccess);
  ASSERT_EQ(driver_->CtxSetCurrent(context_), kCuSuccess);
  const CuDeviceAddress y = Words({5});
  const CuStream fresh = NewStream();
  EXPECT_EQ(Add(LoadKernel(kAdd, "add"), y, 1, 1, fresh), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(fresh), kCuSuccess);
  EXPECT_EQ(ReadWord(y), 6u);
}

TEST_F(EmulatedDriverTest, MemoryThatIsFreedBeforeTheKernelRunsShows) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({1});
  const CuStream stream = NewStream();
  EXPECT_EQ(Add(add, x, 1, 1, stream), kCuSuccess);
  EXPECT_EQ(driver_->MemFree(x), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuIllegalAddress);
  EXPECT_THAT(ErrorText(kCuIllegalAddress), HasSubstr("use of freed memory"));
}

TEST_F(EmulatedDriverTest, ANoteIsOfTheNextLaunchOfItsThread) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({1, 2});
  const CuStream stream = NewStream();
  auto note = std::make_shared<LaunchNote>();
  note->ranges.push_back({.address = x, .bytes = 4, .name = "%one", .is_written = true});
  EXPECT_EQ(driver_->NoteNextLaunch(note), kCuSuccess);
  std::thread([&] {
    driver_->CtxSetCurrent(context_);
    EXPECT_EQ(Add(add, x, 2, 1, stream), kCuSuccess) << "this one has no note";
  }).join();
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(Add(add, x, 2, 1, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuIllegalAddress);
  EXPECT_THAT(ErrorText(kCuIllegalAddress), HasSubstr("%one"));
}

// ---- Graphs

TEST_F(EmulatedDriverTest, AGraphRepeatsWhatWasRecorded) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  const CuGraphExec exec = RecordAdd(add, x, stream);
  EXPECT_EQ(driver_->GraphUpload(exec, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 0u) << "recording runs nothing";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(driver_->GraphLaunch(exec, stream), kCuSuccess);
  EXPECT_EQ(driver_->GraphExecDestroy(exec), kCuSuccess) << "before it has run";
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 3u);
  EXPECT_EQ(driver_->GraphLaunch(exec, stream), kCuInvalidHandle);
  EXPECT_EQ(driver_->GraphExecDestroy(exec), kCuInvalidHandle);
}

TEST_F(EmulatedDriverTest, AGraphKeepsTheNotesOfItsLaunches) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({0}), other = Words({0});
  const CuStream stream = NewStream();
  auto note = std::make_shared<LaunchNote>();
  note->ranges.push_back({.address = other, .bytes = 4, .name = "%other", .is_written = true});
  ASSERT_EQ(driver_->NoteNextLaunch(note), kCuSuccess);
  const CuGraphExec exec = RecordAdd(add, x, stream);
  note.reset();
  EXPECT_EQ(driver_->GraphLaunch(exec, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuIllegalAddress);
}

TEST_F(EmulatedDriverTest, AGraphOutlivesItsModuleAsAnError) {
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuStream stream = NewStream();
  const CuGraphExec exec = RecordAdd(add, Words({0}), stream);
  EXPECT_EQ(driver_->ModuleUnload(module_), kCuSuccess);
  EXPECT_EQ(driver_->GraphLaunch(exec, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuInvalidHandle);
  EXPECT_THAT(ErrorText(kCuInvalidHandle), HasSubstr("module has been unloaded"));
}

TEST_F(EmulatedDriverTest, RecordingForbidsWhatWouldWait) {
  const CuStream stream = NewStream(), other = NewStream();
  CuGraph graph = nullptr;
  CuDeviceAddress address = 0;
  const auto begin = [&] {
    return driver_->StreamBeginCapture(stream, kCuStreamCaptureModeThreadLocal);
  };
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuIllegalState);
  EXPECT_EQ(driver_->StreamBeginCapture(nullptr, 1), kCuStreamCaptureUnsupported);
  ASSERT_EQ(begin(), kCuSuccess);
  EXPECT_EQ(begin(), kCuIllegalState);
  EXPECT_EQ(driver_->MemAlloc(&address, 16), kCuStreamCaptureUnsupported);
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  ASSERT_EQ(begin(), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuStreamCaptureUnsupported);
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuStreamCaptureInvalidated);
  // Waiting for another stream is allowed, and threads that record nothing may do all.
  ASSERT_EQ(begin(), kCuSuccess);
  EXPECT_EQ(driver_->StreamSynchronize(other), kCuSuccess);
  std::thread([&] {
    driver_->CtxSetCurrent(context_);
    EXPECT_EQ(driver_->MemAlloc(&address, 16), kCuSuccess);
    EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuSuccess);
  EXPECT_NE(graph, nullptr);
}

TEST_F(EmulatedDriverTest, EventsOfARecordingAreItsOwn) {
  const CuStream stream = NewStream(), other = NewStream();
  const CuEvent inside = NewEvent(), outside = NewEvent();
  CuGraph graph = nullptr;
  driver_->EventRecord(outside, other);
  ASSERT_EQ(driver_->StreamBeginCapture(stream, 1), kCuSuccess);
  EXPECT_EQ(driver_->EventRecord(inside, stream), kCuSuccess);
  EXPECT_EQ(driver_->StreamWaitEvent(stream, inside, 0), kCuSuccess);
  EXPECT_EQ(driver_->EventQuery(inside), kCuCapturedEvent);
  EXPECT_EQ(driver_->EventSynchronize(inside), kCuCapturedEvent);
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuSuccess);
  ASSERT_EQ(driver_->StreamBeginCapture(stream, 1), kCuSuccess);
  EXPECT_EQ(driver_->StreamWaitEvent(stream, outside, 0), kCuStreamCaptureIsolation);
  EXPECT_EQ(driver_->StreamEndCapture(stream, &graph), kCuStreamCaptureInvalidated);
}

// ---- Handles

TEST_F(EmulatedDriverTest, HandlesThatAreNoneAreFoundOut) {
  int number = 0;
  const auto bogus = [&](auto handle) { return reinterpret_cast<decltype(handle)>(&number); };
  const CuStream stream = NewStream(), bad_stream = bogus(CuStream());
  const CuEvent event = NewEvent(), bad_event = bogus(CuEvent());
  const CuDeviceAddress x = Words({0});
  CuFunction function = nullptr;
  CuGraphExec exec = nullptr;
  CuGraph graph = nullptr;
  float time = 0;
  EXPECT_THAT(
      (std::vector<CuResult>{
          driver_->StreamDestroy(bad_stream),
          driver_->StreamDestroy(nullptr),
          driver_->StreamSynchronize(bad_stream),
          driver_->StreamQuery(bad_stream),
          driver_->StreamWaitEvent(bad_stream, event, 0),
          driver_->StreamWaitEvent(stream, bad_event, 0),
          driver_->StreamBeginCapture(bad_stream, 1),
          driver_->StreamEndCapture(bad_stream, &graph),
          driver_->EventDestroy(bad_event),
          driver_->EventRecord(bad_event, stream),
          driver_->EventRecord(event, bad_stream),
          driver_->EventSynchronize(bad_event),
          driver_->EventQuery(bad_event),
          driver_->EventElapsedTime(&time, event, bad_event),
          driver_->EventElapsedTime(&time, bad_event, event),
          driver_->EventQuery(reinterpret_cast<CuEvent>(stream)),
          driver_->MemcpyHtoDAsync(x, &number, 4, bad_stream),
          driver_->MemcpyDtoHAsync(&number, x, 4, bad_stream),
          driver_->MemcpyDtoDAsync(x, x, 4, bad_stream),
          driver_->MemsetD8Async(x, 0, 1, bad_stream),
          driver_->MemsetD16Async(x, 0, 1, bad_stream),
          driver_->MemsetD32Async(x, 0, 1, bad_stream),
          driver_->ModuleUnload(bogus(CuModule())),
          driver_->ModuleGetFunction(&function, bogus(CuModule()), "f"),
          driver_->FuncGetAttribute(&number, kCuFunctionNumRegs, bogus(CuFunction())),
          driver_->FuncSetAttribute(bogus(CuFunction()), kCuFunctionNumRegs, 0),
          driver_->OccupancyMaxActiveBlocksPerMultiprocessor(&number, bogus(CuFunction()), 32, 0),
          Add(bogus(CuFunction()), x, 1, 1, stream),
          Add(LoadKernel(kAdd, "add"), x, 1, 1, bad_stream),
          driver_->GraphInstantiateWithFlags(&exec, bogus(CuGraph()), 0),
          driver_->GraphUpload(bogus(CuGraphExec()), stream),
          driver_->GraphLaunch(bogus(CuGraphExec()), stream),
          driver_->GraphExecDestroy(bogus(CuGraphExec())),
          driver_->GraphDestroy(bogus(CuGraph()))}),
      Each(kCuInvalidHandle));
}

TEST_F(EmulatedDriverTest, ErrorsHaveNames) {
  const char* text = nullptr;
  EXPECT_EQ(driver_->GetErrorName(kCuOutOfMemory, &text), kCuSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(ErrorText(kCuOutOfMemory), "out of memory");
  EXPECT_EQ(driver_->GetErrorName(123456, &text), kCuInvalidValue);
}

// The table keeps the GPU, and threads may call it at the same time.
TEST_F(EmulatedDriverTest, ThreadsShareTheTable) {
  gpu_.reset();
  const CuFunction add = LoadKernel(kAdd, "add");
  const CuDeviceAddress x = Words({0});
  const CuStream stream = NewStream();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      driver_->CtxSetCurrent(context_);
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(Add(add, x, 1, 1, stream), kCuSuccess);
        if (i % 10 == 0) {
          EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver_->StreamSynchronize(stream), kCuSuccess);
  EXPECT_EQ(ReadWord(x), 200u);
}

}  // namespace
}  // namespace duotone::emulator
