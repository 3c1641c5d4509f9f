#include "runtime/cuda/driver.h"

#include <algorithm>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/cuda/scoped_environment.h"

namespace duotone::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// FAKE_LIBCUDA_FOLDER holds builds of fake_libcuda.cc.
absl::StatusOr<std::shared_ptr<const Driver>> LoadFake(const std::string& name) {
  const std::string path = FAKE_LIBCUDA_FOLDER "/lib" + name + ".so";
  const ScopedEnvironment place("DUOTONE_LIBCUDA", path.c_str());
  return LoadDriver();
}

TEST(LoadDriver, FindsTheVersionsThatAreDeclared) {
  const auto driver = LoadFake("fake_cuda");
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->version, 13000);
  EXPECT_TRUE((*driver)->has_graphs());
  CuDeviceAddress address = 0;
  EXPECT_EQ((*driver)->MemAlloc(&address, size_t{1} << 40), kCuSuccess);
  EXPECT_EQ(address, CuDeviceAddress{1} << 40);
}

TEST(LoadDriver, AsksTheDriverForWhatTheLibraryDoesNotExport) {
  const auto driver = LoadFake("fake_cuda_lookup");
  ASSERT_TRUE(driver.ok()) << driver.status();
  CuDeviceAddress address = 0;
  EXPECT_EQ((*driver)->MemAlloc(&address, 17), kCuSuccess);
  EXPECT_EQ(address, 17u);
}

TEST(LoadDriver, WhatIsOptionalMayBeMissing) {
  const auto driver = LoadFake("fake_cuda_old");
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_FALSE((*driver)->has_graphs());
  EXPECT_TRUE((*driver)->GraphLaunch);
}

TEST(LoadDriver, AnAncientDriverIsNamedWithWhatItLacks) {
  const auto driver = LoadFake("fake_cuda_ancient");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(driver.status().message()),
              AllOf(HasSubstr("offers CUDA 9.2"), HasSubstr("lacks cuStreamBeginCapture_v2;"),
                    HasSubstr("driver 470 (CUDA 11.4) or newer is needed")));
}

TEST(LoadDriver, AMachineWithoutAGpuIsToldWhereToLook) {
  const auto driver = LoadFake("fake_cuda_no_device");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(driver.status().message()),
              AllOf(HasSubstr("starting the CUDA driver"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(LoadDriver, WithoutTheLibraryTheErrorSaysWhatToDo) {
  const auto driver = LoadFake("nothing_of_this_name");
  EXPECT_EQ(driver.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(driver.status().message()),
      AllOf(HasSubstr("no CUDA driver on this machine"), HasSubstr("libnothing_of_this_name.so"),
            HasSubstr("correct or unset DUOTONE_LIBCUDA")));
}

TEST(DriverCheck, SaysWhatWasBeingDone) {
  const auto loaded = LoadFake("fake_cuda");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Driver& driver = **loaded;
  EXPECT_TRUE(driver.Check(kCuSuccess, "never seen").ok());
  const absl::Status memory = driver.Check(kCuOutOfMemory, "allocating %d bytes for %s", 17, "%w");
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.message(),
            "allocating 17 bytes for %w: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_EQ(driver.Check(9999, "copying").message(), "copying: CUDA error 9999");
  // A table that someone else filled may lack the texts.
  EXPECT_EQ(Driver().Check(kCuNoDevice, "asking").message(), "asking: CUDA error 100");
}

// A driver that refuses images with `result`, and writes `log` where it is told to.
Driver RefusingDriver(CuResult result, const std::string& log, int version) {
  Driver driver;
  driver.version = version;
  driver.ModuleLoadDataEx = [=](CuModule*, const void*, unsigned count, int* options,
                                void** values) {
    char* buffer = nullptr;
    size_t size = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == kCuJitErrorLogBuffer) buffer = static_cast<char*>(values[i]);
      if (options[i] == kCuJitErrorLogBufferSizeBytes) size = reinterpret_cast<size_t>(values[i]);
    }
    std::memcpy(buffer, log.data(), std::min(log.size(), size));
    return result;
  };
  return driver;
}

TEST(LoadModule, AnErrorCarriesTheDriversLog) {
  const Driver driver = RefusingDriver(kCuInvalidPtx, "ptxas: line 3: odd", 13000);
  const auto module = LoadModule(driver, "image", "kernel relu of fc1");
  const std::string message(module.status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("loading kernel relu of fc1: CUDA error 218"),
                             HasSubstr("The driver's log:\nptxas: line 3: odd"),
                             Not(HasSubstr("update the driver"))));
}

TEST(LoadModule, ALogThatFillsItsBufferHasAnEnd) {
  const Driver driver = RefusingDriver(kCuInvalidPtx, std::string(1 << 20, 'x'), 13000);
  EXPECT_LT(LoadModule(driver, "image", "kernel").status().message().size(), 20000u);
}

TEST(LoadModule, AnOldDriverIsNamedWithWhatIsNeeded) {
  const Driver driver = RefusingDriver(kCuUnsupportedPtxVersion, "", 12040);
  EXPECT_THAT(std::string(LoadModule(driver, "image", "kernel").status().message()),
              AllOf(HasSubstr("the driver offers CUDA 12.4"), HasSubstr("driver 580 (CUDA 13.0)"),
                    HasSubstr("DUOTONE_NVRTC")));
}

TEST(LoadModule, GivesWhatTheDriverGives) {
  static char there = 0;
  Driver driver;
  driver.ModuleLoadDataEx = [](CuModule* module, const void*, unsigned, int*, void**) {
    *module = reinterpret_cast<CuModule>(&there);
    return kCuSuccess;
  };
  const auto module = LoadModule(driver, "image", "kernel");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(*module, reinterpret_cast<CuModule>(&there));
}

}  // namespace
}  // namespace duotone::runtime
