// duotone run-ptx: kernels of PTX files with arguments from the command line.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/tools/command_test.h"

namespace duotone::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// y[i] = a * x[i] + y[i] for i below n.
constexpr char kAxpy[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.f32 %f1, [a];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
DONE:
  ret;
}
)";

// Copies a parameter of 8 bytes, a halfword and a byte to the buffer.
constexpr char kStore[] = R"(.version 7.0
.target sm_80
.address_size 64
.entry store(.param .u64 out, .param .align 8 .b8 pair[8], .param .u16 half, .param .u8 byte)
{
  .reg .b16 %h<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [pair];
  ld.param.u16 %h1, [half];
  ld.param.u8 %h2, [byte];
  st.global.u64 [%rd1], %rd2;
  st.global.u16 [%rd1+8], %h1;
  st.global.u8 [%rd1+10], %h2;
  ret;
}
)";

class RunPtxTest : public CommandTest {
 protected:
  CommandResult Axpy(const std::string& args, std::vector<std::string> flags = {}) {
    std::vector<std::string> words = {"run-ptx", Write("axpy.ptx", kAxpy), "--grid=2", "--block=64",
                                      "--args=" + args};
    words.insert(words.end(), flags.begin(), flags.end());
    return Run(words);
  }
};

TEST_F(RunPtxTest, PrintsWhatChanged) {
  const CommandResult result = Axpy("buf:f32[100]=iota,buf:f32[100]=0.5,f32:2,u32:100");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("kernel axpy on sm_75: grid 2 x 1 x 1, block 64 x 1 x 1, "));
  EXPECT_THAT(result.out, HasSubstr("argument 1, x: f32[100], not changed\n"));
  EXPECT_THAT(result.out, HasSubstr("argument 2, y: f32[100], 99 changed: 0.5 2.5 4.5 6.5 8.5 10.5 "
                                    "12.5 14.5 ...\n"));
  EXPECT_EQ(result.err, "");
}

// What an undefined buffer held does not matter: zeros are written, and the rest is not.
TEST_F(RunPtxTest, AnUndefinedBufferChangesWhereItIsWritten) {
  const std::vector<std::string> words = {"run-ptx", Write("store.ptx", kStore), "--block=1",
                                          "--args=buf:u16[8],hex:0000000000000000,i16:0,i8:0"};
  EXPECT_THAT(Run(words).out, HasSubstr("argument 1, out: u16[8], 6 changed: 0 0 0 0 0 "));
  std::vector<std::string> unchecked = words;
  unchecked.push_back("--no-checks");
  EXPECT_THAT(Run(unchecked).out, HasSubstr("6 changed: 0 0 0 0 0 65280 65535 65535\n"));
  EXPECT_THAT(Run({"run-ptx", Write("store.ptx", kStore), "--block=1",
                   "--args=buf:u16[8]=0,hex:0000000000000000,i16:0,i8:0"})
                  .out,
              HasSubstr("out: u16[8], not changed\n"));
}

TEST_F(RunPtxTest, BuffersComeFromFilesAndGoToFiles) {
  const std::vector<float> x = {1, 2, 3, 4};
  std::string bytes(sizeof(float) * x.size(), '\0');
  std::memcpy(bytes.data(), x.data(), bytes.size());
  Write("x.bin", bytes);
  const CommandResult result =
      Axpy("buf:f32[]=@x.bin,buf:f32[2x2]=1:out=y.bin", {"--args=f32:-1,u32:4", "--print=0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string y = Read("y.bin");
  ASSERT_EQ(y.size(), bytes.size());
  std::vector<float> values(4);
  std::memcpy(values.data(), y.data(), y.size());
  EXPECT_EQ(values, (std::vector<float>{0, -1, -2, -3}));
}

// A file is as many elements as its bytes make, of any type; a size that is given must be its own.
TEST_F(RunPtxTest, FilesAreReadAsElementsOfTheTypeThatIsNamed) {
  Write("bytes.bin", std::string("\x01\x02\x00\x00\xff\xff\xff\xff", 8));
  Write("odd.bin", "12345");
  Write("empty.bin", "");
  const auto run = [this](const std::string& buffer) {
    return Run({"run-ptx", Write("store.ptx", kStore), "--block=1",
                "--args=buf:b8[11]=zeros," + buffer + ",i16:1,i8:1", "--json=-"});
  };
  const std::pair<const char*, int> sizes[] = {{"i32", 2}, {"u8", 8},    {"f16", 4},
                                               {"b64", 1}, {"f64[]", 1}, {"i16[2x2]", 4}};
  for (const auto& [type, elements] : sizes) {
    const CommandResult result = run("buf:" + std::string(type) + "=@bytes.bin");
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(nlohmann::json::parse(result.out)["buffers"][1]["elements"], elements) << type;
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"buf:i32=@odd.bin", "odd.bin has 5 bytes, which is no multiple of 4, the size of s32"},
      {"buf:i32[3]=@bytes.bin", "bytes.bin has 8 bytes; 3 elements of s32 have 12"},
      {"buf:i32=@empty.bin", "empty.bin is empty"},
      {"buf:i32=@", "@ names no file"},
      {"buf:i32=@nowhere", "cannot open nowhere: No such file"},
  };
  for (const auto& [buffer, message] : wrong) {
    const CommandResult result = run(buffer);
    EXPECT_EQ(result.exit_code, 2) << buffer;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

// Said before the kernel runs, and nothing is made.
TEST_F(RunPtxTest, FoldersOfResultsMustBeThere) {
  const std::string buffers = "buf:f32[8]=0,buf:f32[8]=0:out=results/y.bin,f32:1,u32:8";
  const CommandResult result = Axpy(buffers);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("=0:out=results/y.bin': there is no folder results\n"));
  const CommandResult json = Axpy("u64:0,u64:0,f32:1,u32:0", {"--json=results/r.json"});
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_THAT(json.err, HasSubstr("--json: there is no folder results\n"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "results"));
  std::filesystem::create_directory(dir_ / "results");
  EXPECT_EQ(Axpy(buffers).exit_code, 0);
  EXPECT_EQ(Read("results/y.bin").size(), 32u);
}

// The next option is not taken for the value.
TEST_F(RunPtxTest, AMissingValueIsSaidSo) {
  const std::string file = Write("axpy.ptx", kAxpy);
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--grid=", "--block=64"}, "--grid has no value; it takes X,Y,Z"},
      {{"--grid", "--block=64"}, "--grid has no value; it takes X,Y,Z"},
      {{"--block=64", "--args="}, "--args has no value; it takes ARG,..."},
      {{"--block=64", "--counters"}, "--counters has no value; it takes place|instruction"},
      {{"--no-checks", "--kernel=", "axpy"}, "--kernel has no value; it takes NAME"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> words = {"run-ptx", file};
    words.insert(words.end(), flags.begin(), flags.end());
    const CommandResult result = Run(words);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.err, HasSubstr("(see duotone run-ptx --help)"));
  }
  EXPECT_EQ(Run({"run-ptx", "--grid", "1", "--block", "1", file, "--kernel", "axpy", "--print", "0",
                 "--args", "u64:0,u64:0", "--args", "f32:-1, u32:0"})
                .exit_code,
            0);
}

TEST_F(RunPtxTest, ProblemsAreErrors) {
  const CommandResult beside = Axpy("buf:f32[100]=iota,buf:f32[100]=0,f32:2,u32:101");
  EXPECT_EQ(beside.exit_code, 1);
  EXPECT_THAT(beside.err,
              HasSubstr("out of bounds in kernel axpy, PTX line 20 "
                        "'ld.global.f32 %f2, [%rd4];', block (1, 0, 0), warp 1, lane 4"));
  EXPECT_THAT(beside.err, HasSubstr("duotone: kernel axpy has errors\n"));
  const CommandResult unwritten = Axpy("buf:f32[100]=iota,buf:f32[100],f32:2,u32:100");
  EXPECT_EQ(unwritten.exit_code, 1);
  EXPECT_THAT(unwritten.err, HasSubstr("uninitialised read in kernel axpy, PTX line 21"));
  EXPECT_EQ(Axpy("buf:f32[100]=iota,buf:f32[100],f32:2,u32:100", {"--no-checks"}).exit_code, 0);
}

TEST_F(RunPtxTest, ArgumentsOfAllTypes) {
  const CommandResult result =
      Run({"run-ptx", Write("store.ptx", kStore), "--block=1",
           "--args=buf:b8[11]=zeros,hex:0102030405060708,f16:1,i8:-2", "--print=11"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0x01 0x02 0x03 0x04 0x05 0x06 0x07 0x08 0x00 0x3c 0xfe\n"));
}

TEST_F(RunPtxTest, SeedsAndSchedulesGiveTheSameSums) {
  const std::string args = "buf:f32[128]=uniform:out=x,buf:f32[128]=zeros:out=y,f32:1,u32:128";
  ASSERT_EQ(Axpy(args).exit_code, 0);
  const std::string x = Read("x");
  EXPECT_EQ(x, Read("y"));
  ASSERT_EQ(Axpy(args, {"--schedule=adversarial", "--target=sm_90"}).exit_code, 0);
  EXPECT_EQ(x, Read("y"));
  ASSERT_EQ(Axpy(args, {"--seed=2"}).exit_code, 0);
  EXPECT_NE(x, Read("y"));
}

TEST_F(RunPtxTest, JsonAndCounters) {
  const std::string args = "buf:f32[100]=iota,buf:f32[100]=0,f32:2,u32:101";
  const CommandResult result = Axpy(args, {"--json=-", "--print=2"});
  EXPECT_EQ(result.exit_code, 1);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["kernel"], "axpy");
  EXPECT_EQ(json["buffers"][1]["changed"], 99);
  EXPECT_EQ(json["buffers"][1]["first"], (std::vector<std::string>{"0", "2"}));
  ASSERT_EQ(json["problems"].size(), 3u);
  const nlohmann::json& problem = json["problems"][0];
  EXPECT_EQ(problem["kind"], "out of bounds");
  EXPECT_EQ(problem["severity"], "error");
  EXPECT_EQ(problem["kernel"], "axpy");
  EXPECT_EQ(problem["node"], "");
  EXPECT_EQ(problem["line"], 20);
  EXPECT_EQ(problem["instruction"], "ld.global.f32 %f2, [%rd4];");
  EXPECT_EQ(problem["block"], (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(problem["warp"], 1);
  EXPECT_EQ(problem["lanes"], 1 << 4);
  EXPECT_THAT(result.err, StartsWith(problem["text"].get<std::string>() + "\n"));
  EXPECT_THAT(problem["text"].get<std::string>(),
              HasSubstr(": " + problem["what"].get<std::string>()));
  const nlohmann::json& counted = json["counted"];
  ASSERT_EQ(counted["by_place"].size(), 1u);
  EXPECT_EQ(counted["by_place"][0]["place"], "(no line of the source)");
  EXPECT_EQ(counted["by_place"][0]["instructions"], counted["instructions"]);
  // 101 threads in four warps.
  const auto detailed =
      nlohmann::json::parse(Axpy(args, {"--json=-", "--counters=instruction"}).out);
  const nlohmann::json& rows = detailed["counted"]["by_instruction"];
  ASSERT_EQ(rows.size(), 18u);
  EXPECT_EQ(rows[13]["instruction"], problem["instruction"]);
  EXPECT_EQ(rows[13]["line"], 20);
  EXPECT_EQ(rows[13]["lanes"], 101);
  EXPECT_EQ(rows[13]["requests"], 4);
  const CommandResult counters = Axpy(args, {"--counters=instruction"});
  EXPECT_THAT(counters.out, HasSubstr("fma.rn.f32 %f4, %f1, %f2, %f3;"));
}

TEST_F(RunPtxTest, BadUsageSaysWhatIsMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {"buf:f32[8]=iota",
       "--args has 1 argument; kernel axpy takes 4: .u64 x, .u64 y, .f32 a, .u32 n"},
      {"u64:0,u64:0,f64:2,u32:1", "--args: 'f64:2' has 8 bytes; the parameter a has 4"},
      {"u64:0,u64:0,f32:2,buf:f32[1]",
       "'buf:f32[1]' (an address) has 8 bytes; the parameter n has"},
      {"u64:0,u64:0,u32:2,u32:1",
       "'u32:2' is a whole number; the parameter a is .f32 (to give its bits: b32:0x...)"},
      {"u64:0,u64:0,f32:2,f32:1", "'f32:1' is a float; the parameter n is .u32"},
      {"u64:0,,f32:2,u32:1", "--args: argument 2 is empty"},
      {"u64:0,u64:0,f32:2,u32:1,", "--args: argument 5 is empty"},
      {"5", "--args: '5' has no type; write i32:5 or buf:f32[1024]=zeros"},
      {"i33:5", "'i33' is no type of values"},
      {"i8:128", "128 is outside the range of s8"},
      {"u32:-1", "-1 is outside the range of u32"},
      {"u32:x", "'x' is no whole number"},
      {"f32:x", "'x' is no number"},
      {"f16:70000", "70000 is outside the range of f16"},
      {"bf16:1e39", "1e39 is outside the range of bf16"},
      {"f32:-1e39", "-1e39 is outside the range of f32"},
      {"hex:123", "two hexadecimal digits make a byte"},
      {"buf:f32=zeros", "the number of elements is missing; write buf:f32[1024]"},
      {"buf:f32[]", "the number of elements is missing"},
      {"buf:f32[0]", "'0' is no number of elements"},
      {"buf:f32[4x]", "'4x' is no number of elements, such as 1024 or 32x32"},
      {"buf:f32[4,4]", "'4,4' is no number of elements"},
      {"buf:f32[4", "'[4' has no ]"},
      {"buf:f32[4]iota", "'iota' stands between the size and ="},
      {"buf:f32[4]=", "'' is neither zeros, iota"},
      {"buf:u8[4]=256", "256 is outside the range of u8"},
      {"buf:f16[4]=70000", "70000 is outside the range of f16"},
      {"buf:i32[4]=1.5", "'1.5' is no whole number"},
      {"buf:f64[9999999999]", "a buffer has at most 4294967296 bytes"},
      {"buf:f32[4]=ones", "'ones' is neither zeros, iota, uniform, @FILE nor a number for f32"},
      {"buf:f32[4]=@nowhere", "nowhere"},
      {"buf:f32[4]:out=", ":out= names no file"},
      {"buf:f32[4]:out=-", ":out= takes a file, not -"},
      {"buf:f32[4]:out=y=iota", "=iota stands before :out="},
      {"buf:f32[4]:out=a:out=b", ":out= is given twice"},
  };
  for (const auto& [args, message] : cases) {
    const CommandResult result = Axpy(args);
    EXPECT_EQ(result.exit_code, 2) << args << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(message)) << args;
  }
  const std::string good = "u64:0,u64:0,f32:1,u32:0";
  EXPECT_EQ(Axpy(good).exit_code, 0);
  const std::pair<const char*, const char*> flags[] = {
      {"--target=sm_52", "--target: "},
      {"--schedule=random", "--schedule: 'random' is neither round-robin nor adversarial"},
      {"--counters=all", "--counters: 'all' is neither place nor instruction"},
      {"--block=0", "--block: '0' is not one to three numbers of at least 1, such as 4,2"},
      {"--grid=1,2,3,4", "--grid: '1,2,3,4'"},
      {"--threads=1025", "--threads: 1025 is more than 1024"},
      {"--kernel=other", "axpy.ptx has no kernel 'other'; it has: axpy"},
  };
  for (const auto& [flag, message] : flags) {
    const CommandResult result = Axpy(good, {flag});
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr(message)) << flag;
  }
}

TEST_F(RunPtxTest, BadPtxIsAnErrorWithItsLine) {
  const CommandResult result = Run({"run-ptx",
                                    Write("bad.ptx",
                                          ".version 9.0\n.target sm_90\n.address_size 64\n"
                                          ".entry k()\n{\n  wgmma.fence.sync.aligned;\n}\n"),
                                    "--block=1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("bad.ptx: PTX line 6 'wgmma.fence.sync.aligned;': there is no "
                                    "instruction 'wgmma' in the emulator"));
  EXPECT_EQ(Run({"run-ptx", "nowhere.ptx", "--block=1"}).exit_code, 1);
  EXPECT_THAT(Run({"run-ptx",
                   Write("a.cubin", std::string("\x7f"
                                                "ELF\0",
                                                5)),
                   "--block=1"})
                  .err,
              HasSubstr("a.cubin is not the text of PTX: its byte 4 is 0"));
}

// The name of a source file may have any bytes.
TEST_F(RunPtxTest, JsonIsUtf8) {
  const CommandResult result =
      Run({"run-ptx",
           Write("latin1.ptx",
                 ".version 8.0\n.target sm_80\n.address_size 64\n"
                 ".file 1 \"caf\xe9.cu\"\n.entry k()\n{\n.loc 1 1 0\nret;\n}\n"),
           "--block=32", "--json=-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(nlohmann::json::parse(result.out).dump(), HasSubstr("caf\xef\xbf\xbd.cu"));
}

}  // namespace
}  // namespace duotone::tools
