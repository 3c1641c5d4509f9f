// PTX text becomes typed form, or an error with its line and text.
#include "runtime/emulator/ptx.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace duotone::emulator {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_80\n.address_size 64\n";

PtxModule Parsed(const std::string& text) {
  absl::StatusOr<PtxModule> module = ParsePtx(kHead + text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : PtxModule();
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<PtxModule> module = ParsePtx(kHead + text);
  return module.ok() ? "" : std::string(module.status().message());
}

// A kernel with registers of all widths; its first line is line 6 of the text.
std::string Kernel(const std::string& body) {
  return absl::StrFormat(
      ".visible .entry k(.param .u64 k_param_0)\n"
      "{.reg .pred %%p<4>; .reg .b16 %%h<8>; .reg .b32 %%r<8>; .reg .b64 %%d<8>; .reg .f32 "
      "%%f<8>;\n"
      "%s\n}\n",
      body);
}

Instruction First(const std::string& body) {
  const PtxModule module = Parsed(Kernel(body));
  if (module.functions.empty() || module.functions[0].body.empty()) return Instruction();
  return module.functions[0].body[0];
}

std::string BodyError(const std::string& body) { return ErrorOf(Kernel(body)); }

uint64_t ImmediateOf(const std::string& words, const std::string& number) {
  const std::string reg = absl::StrContains(words, "64")   ? "%d1"
                          : absl::StrContains(words, "16") ? "%h1"
                                                           : "%r1";
  const Instruction instruction = First(words + " " + reg + ", " + number + ";");
  if (instruction.operands.size() != 2) return 0xdeadbeef;
  EXPECT_EQ(instruction.operands[1][0].kind, Operand::Kind::kImmediate);
  return instruction.operands[1][0].bits;
}

TEST(PtxParser, ReadsTheHead) {
  const PtxModule module = Parsed("");
  EXPECT_EQ(module.version, 90);
  EXPECT_EQ(module.target, "sm_80");
  EXPECT_EQ(module.compute, 80);
  EXPECT_FALSE(module.is_for_one);
}

TEST(PtxParser, TheTargetIsAnArchitecture) {
  const auto parsed = [](const std::string& target) {
    return ParsePtx(".version 9.0\n.target " + target + "\n.address_size 64\n");
  };
  for (const char* target : {"sm_90a", "sm_100f", "sm_120a, debug"}) {
    const absl::StatusOr<PtxModule> module = parsed(target);
    ASSERT_TRUE(module.ok()) << module.status();
    EXPECT_TRUE(module->is_for_one) << target;
  }
  for (const char* target :
       {"sm_", "sm_8", "sm_a", "sm_80x", "SM_80", "sm", "sm_1000", "80, sm_80"}) {
    EXPECT_FALSE(parsed(target).ok()) << target;
  }
  EXPECT_EQ(parsed("sm_").status().message(),
            "PTX line 2 '.target sm_': 'sm_' is no architecture such as sm_80");
  EXPECT_EQ(ParsePtx(".version 9.0\n.address_size 64\n.target sm_80\n").status().message(),
            "PTX line 2 '.address_size 64': '.address_size' stands where .target, which follows "
            ".version, should be");
}

TEST(PtxParser, RegistersAreFoundWithTheirTypes) {
  const PtxModule module = Parsed(Kernel("@!%p1 add.f32 %f2, %f3, %f1;"));
  const PtxFunction& kernel = module.functions[0];
  const Instruction& add = kernel.body[0];
  EXPECT_EQ(kernel.registers[static_cast<size_t>(add.guard)].name, "%p1");
  EXPECT_TRUE(add.guard_negated);
  ASSERT_EQ(add.operands.size(), 3u);
  EXPECT_EQ(add.results, 1);
  EXPECT_EQ(kernel.registers[static_cast<size_t>(add.operands[1][0].index)].name, "%f3");
  EXPECT_EQ(add.operands[1][0].register_type, Type::kF32);
  EXPECT_EQ(module.TextOf(add), "@!%p1 add.f32 %f2, %f3, %f1;");
}

TEST(PtxParser, ImmediatesTakeTheTypeOfTheOperand) {
  EXPECT_EQ(ImmediateOf("mov.u32", "12"), 12u);
  EXPECT_EQ(ImmediateOf("mov.u32", "-1"), 0xffffffffu);
  EXPECT_EQ(ImmediateOf("mov.s64", "-2"), 0xfffffffffffffffeu);
  EXPECT_EQ(ImmediateOf("mov.u32", "0x1F"), 0x1fu);
  EXPECT_EQ(ImmediateOf("mov.u32", "0xFFFFFFFFU"), 0xffffffffu);
  EXPECT_EQ(ImmediateOf("mov.u32", "0b101"), 5u);
  EXPECT_EQ(ImmediateOf("mov.u32", "017"), 15u);
  EXPECT_EQ(ImmediateOf("mov.u32", "1U"), 1u);
  EXPECT_EQ(ImmediateOf("mov.u16", "-1"), 0xffffu);
  EXPECT_EQ(ImmediateOf("mov.u32", "WARP_SZ"), 32u);
  EXPECT_EQ(ImmediateOf("mov.f32", "0f3F800000"), 0x3f800000u);
  EXPECT_EQ(ImmediateOf("mov.b32", "0f7FC00001"), 0x7fc00001u);
  EXPECT_EQ(ImmediateOf("mov.f32", "1.5"), 0x3fc00000u);
  EXPECT_EQ(ImmediateOf("mov.f32", "-1.5e-1"), 0xbe19999au);
  EXPECT_EQ(ImmediateOf("mov.f32", "0d3FF8000000000000"), 0x3fc00000u);
  EXPECT_EQ(ImmediateOf("mov.f64", "0d3FF8000000000000"), 0x3ff8000000000000u);
  EXPECT_EQ(ImmediateOf("mov.f64", "2.0"), 0x4000000000000000u);
}

TEST(PtxParser, NumbersThatAreNone) {
  for (const char* number : {"0x", "0f3F80", "0f3F80000000", "0d3FF8", "1.5.5", "09", "1", "0xG",
                             "99999999999999999999999", "1e", "2f"}) {
    EXPECT_NE(BodyError(absl::StrFormat("mov.f32 %%f1, %s;", number)), "") << number;
  }
  EXPECT_NE(BodyError("add.f32 %f1, %f1, 1;"), "");
  EXPECT_EQ(BodyError("mov.u32 %r1, 1.5;"),
            "PTX line 6 'mov.u32 %r1, 1.5;': '1.5' is no immediate for u32");
}

TEST(PtxParser, SecondResultsAndPredicatesAreExplicit) {
  const Instruction setp = First("setp.lt.s32 %p1, %r1, %r2;");
  ASSERT_EQ(setp.operands.size(), 4u);
  EXPECT_EQ(setp.results, 2);
  EXPECT_EQ(setp.operands[1][0].kind, Operand::Kind::kSink);
  const Instruction both = First("setp.lt.and.s32 %p1|%p2, %r1, 3, !%p3;");
  ASSERT_EQ(both.operands.size(), 5u);
  EXPECT_EQ(both.operands[1][0].kind, Operand::Kind::kRegister);
  EXPECT_TRUE(both.operands[4][0].negated);
  EXPECT_EQ(First("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;").operands.size(), 6u);
  EXPECT_EQ(First("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;").operands.size(), 6u);
}

TEST(PtxParser, VectorsAndParts) {
  const Instruction load = First("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1+-16];");
  EXPECT_EQ(load.operands[0].size(), 4u);
  EXPECT_EQ(load.operands[1][0].offset, -16);
  const Instruction unpack = First("mov.b32 {%h1, %h2}, %r1;");
  EXPECT_EQ(unpack.operands[0][1].type, Type::kB16);
  EXPECT_EQ(unpack.operands[1][0].type, Type::kB32);
  EXPECT_NE(BodyError("ld.global.v4.f32 {%f1, %f2}, [%d1];"), "");
  EXPECT_NE(BodyError("mov.b32 {%h1, %h2, %h3}, %r1;"), "");
}

TEST(PtxParser, RegistersMayBeWiderOnlyWherePtxSaysSo) {
  const Instruction load = First("ld.global.u8 %r1, [%d1];");
  EXPECT_EQ(load.operands[0][0].type, Type::kU8);
  EXPECT_EQ(load.operands[0][0].register_type, Type::kB32);
  EXPECT_EQ(BodyError("add.u32 %d1, %r1, %r1;"),
            "PTX line 6 'add.u32 %d1, %r1, %r1;': %d1 is declared as .b64; the instruction takes a "
            ".u32 there");
  // Floats and integers do not mix, bits go with both.
  EXPECT_NE(BodyError("add.s32 %f1, %r1, %r1;"), "");
  EXPECT_EQ(BodyError("add.f32 %r1, %f1, %f1;"), "");
  EXPECT_NE(BodyError("selp.b32 %r1, %r2, %r3, %r4;"), "");
}

TEST(PtxParser, InnerBlocksShadowNamesAndHaveTheirOwnLabels) {
  const PtxModule module =
      Parsed(Kernel("mov.u32 %r1, 1;\n"
                    "{ .reg .b64 %r1; again: mov.u64 %r1, 2; bra again; }\n"
                    "{ again: bra out; }\n"
                    "out: mov.u32 %r1, 3;"));
  const PtxFunction& kernel = module.functions[0];
  ASSERT_EQ(kernel.body.size(), 5u);
  EXPECT_EQ(kernel.body[0].operands[0][0].index, kernel.body[4].operands[0][0].index);
  EXPECT_NE(kernel.body[0].operands[0][0].index, kernel.body[1].operands[0][0].index);
  EXPECT_EQ(kernel.body[2].operands[0][0].index, 1);
  EXPECT_EQ(kernel.body[3].operands[0][0].index, 4);
  EXPECT_EQ(module.TextOf(kernel.body[2]), "bra again;");
}

TEST(PtxParser, OnlyUsedRegistersOfARangeTakeRoom) {
  const PtxModule module = Parsed(
      ".entry k() { .reg .b32 %r<1000>; .reg .f32 %r1_<2>; mov.u32 %r999, 1; mov.f32 %r1_1, "
      "0f00000000; mov.u32 %r999, 2; }");
  const PtxFunction& kernel = module.functions[0];
  ASSERT_EQ(kernel.registers.size(), 2u);
  EXPECT_EQ(kernel.registers[0].name, "%r999");
  EXPECT_EQ(kernel.registers[1].type, Type::kF32);
  for (const char* name : {"%r1000", "%r01", "%r", "%r1_2", "%r99999999999999999999"}) {
    EXPECT_NE(ErrorOf(absl::StrFormat(".entry k() { .reg .b32 %%r<1000>; .reg .b32 %%r1_<2>; "
                                      "mov.u32 %s, 1; }",
                                      name)),
              "")
        << name;
  }
}

TEST(PtxParser, VariablesOfAllSpaces) {
  const PtxModule module = Parsed(
      ".global .align 8 .b8 table[3] = {1, 2};\n"
      ".global .u64 pointers[2] = {generic(table)+1, 7};\n"
      ".const .f32 half = 0.5;\n"
      ".global .s16 rows[2][3] = {{1}, {2, 3}};\n"
      ".extern .shared .align 16 .b8 dynamic[];\n"
      ".shared .v4 .f32 quad;\n"
      ".visible .entry k() { .local .align 4 .b8 stack[40]; .shared .u32 x; ret; }\n");
  ASSERT_EQ(module.variables.size(), 8u);
  EXPECT_EQ(module.variables[0].initial, (std::vector<uint8_t>{1, 2, 0}));
  EXPECT_EQ(module.variables[0].alignment, 8);
  ASSERT_EQ(module.variables[1].address_at.size(), 1u);
  EXPECT_EQ(module.variables[1].address_at[0], (std::pair<int64_t, int>(0, 0)));
  EXPECT_EQ(module.variables[1].initial[0], 1);
  EXPECT_EQ(module.variables[1].initial[8], 7);
  EXPECT_EQ(module.variables[2].initial, (std::vector<uint8_t>{0, 0, 0, 0x3f}));
  EXPECT_EQ(module.variables[3].initial,
            (std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0}));
  EXPECT_TRUE(module.variables[4].is_extern);
  EXPECT_EQ(module.variables[5].bytes, 16);
  EXPECT_EQ(module.variables[5].alignment, 16);
  EXPECT_EQ(module.variables[6].space, Space::kLocal);
  EXPECT_EQ(module.variables[6].bytes, 40);
}

TEST(PtxParser, CallsHaveResultsFunctionAndArguments) {
  const PtxModule module = Parsed(
      ".func (.param .b32 out) twice(.param .b32 in)\n;\n"
      ".global .b32 late;\n" +
      Kernel("{ .param .b32 a; .param .b32 b;\n"
             "st.param.b32 [a+0], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b+0]; }\n"
             "st.global.b32 [late], %r2;") +
      ".func (.param .b32 out) twice(.param .b32 in)\n{ ret; }\n");
  const Instruction& call = module.functions[1].body[1];
  EXPECT_EQ(call.op, Op::kCall);
  EXPECT_EQ(call.results, 1);
  ASSERT_EQ(call.operands.size(), 3u);
  EXPECT_EQ(call.operands[1][0].index, 0);
  EXPECT_FALSE(module.functions[0].is_declaration);
  EXPECT_EQ(module.functions.size(), 2u);
}

TEST(PtxParser, CallsThatTheEmulatorCannotDo) {
  const std::string print =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n";
  EXPECT_EQ(ErrorOf(print), "");  // nobody calls it
  EXPECT_EQ(
      ErrorOf(print + Kernel("{ .param .b32 r; .param .b64 f;\ncall (r), vprintf, (f, f); }")),
      "PTX line 8 'call (r), vprintf, (f, f); }': vprintf is declared, but has no body; the "
      "emulator brings no functions of its own and links no modules");
  EXPECT_TRUE(absl::StrContains(
      ErrorOf(print + Kernel("{ .param .b32 r; .param .b64 f; call (r), vprintf, (f); }")),
      "vprintf takes 2 arguments and returns 1, not 1 and 1"));
  EXPECT_TRUE(absl::StrContains(BodyError("call %d1, (%r1), proto;"), "indirect calls"));
}

TEST(PtxParser, SourceLinesFollowLoc) {
  const PtxModule module =
      Parsed(".file 1 \"a.cu\"\n.file 3 \"b.cuh\", 1234, 99\n" +
             Kernel("mov.u32 %r1, 1;\n.loc 1 7 3\nmov.u32 %r1, 2;\n"
                    ".loc 3 20 1, function_name $L__info+5, inlined_at 1 8 2\nmov.u32 %r1, 3;") +
             ".section .debug_str { $L__info: .b8 95,90 }\n");
  const auto& body = module.functions[0].body;
  ASSERT_EQ(body.size(), 3u);
  EXPECT_EQ(body[0].source_line, 0);
  EXPECT_EQ(body[1].source_file, 1);
  EXPECT_EQ(body[1].source_line, 7);
  EXPECT_EQ(body[2].source_file, 3);
  EXPECT_EQ(body[2].source_line, 20);
  EXPECT_EQ(module.files[3], "b.cuh");
}

TEST(PtxParser, DirectivesOfKernels) {
  const PtxModule module = Parsed(
      ".weak .entry k() .maxntid 128, 2 .minnctapersm 2 .pragma \"nounroll\"; { ret; }\n"
      ".entry q() .reqntid 32 .maxnreg 64 { .pragma \"nounroll\"; ret; }\n");
  EXPECT_EQ(module.functions[0].max_threads, (std::array<int, 3>{128, 2, 1}));
  EXPECT_EQ(module.functions[1].required_threads, (std::array<int, 3>{32, 1, 1}));
  EXPECT_EQ(module.Find("q"), &module.functions[1]);
  EXPECT_EQ(module.Find("nobody"), nullptr);
}

TEST(PtxParser, AddressesNameTheirSpace) {
  const std::string variables = ".shared .f32 s; .global .f32 g;\n";
  EXPECT_EQ(ErrorOf(variables + Kernel("ld.shared.f32 %f1, [s]; ld.f32 %f1, [g+4];")), "");
  EXPECT_TRUE(absl::StrContains(ErrorOf(variables + Kernel("ld.global.f32 %f1, [s];")),
                                "s lies in .shared; the instruction accesses global memory"));
  EXPECT_TRUE(absl::StrContains(ErrorOf(variables + Kernel("ld.f32 %f1, [s];")),
                                "s lies in .shared; the instruction accesses generic memory"));
  EXPECT_EQ(ErrorOf(variables + Kernel("cp.async.ca.shared.global [s], [g], 4;")), "");
}

TEST(PtxParser, ErrorsSayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"wgmma.fence.sync.aligned;", "there is no instruction 'wgmma' in the emulator"},
      {"add.s32 %r1, %r2;", "it takes 3 operands, not 2"},
      {"bar.sync;", "it takes 1 to 2 operands, not 0"},
      {"add.s32 %r1, %r2, %r9;", "there is no register or variable '%r9'"},
      {"add.s32 1, %r2, %r3;", "'1' is a result and must be a register"},
      {"add.s32 %r1, [%d1], %r3;", "an address stands where a value should be"},
      {"ld.global.f32 %f1, %d1;", "an address such as [%rd1] is missing"},
      {"ld.global.f32 %f1, [%f1];", "%f1 is declared as .f32 and holds no address"},
      {"bra nowhere;", "there is no label 'nowhere' in k"},
      {"x: x: ret;", "there are two labels 'x'"},
      {".reg .b32 %r<2>;", "there are two things called '%r'"},
      {"@%r1 ret;", "'%r1' is no predicate"},
      {"mov.u32 %r1, %envreg3;", "the emulator does not model the special register %envreg3"},
      {"mov.u32 %r1, %cluster_ctarank;", "not model the special register %cluster_ctarank"},
      {"mov.u64 %d1, k;", "k is a function: the emulator has no addresses of functions and no"},
      {"{ .param .b32 x; call %d1, (x), k; }", "the emulator knows no indirect calls"},
      {"mov.u32 %r1, k_param_1;", "there is no register or variable 'k_param_1'"},
      {"cp.async.cg.shared.global [%d1], [%d2], 8;", "with .cg 16 bytes, not 8"},
      {"lop3.b32 %r1, %r1, %r1, %r1, %r2;", "'%r2' stands where a number must be"},
      {"add.s32 %r1, %r2, !%r3;", "'!' stands before %r3"},
      {"add.u32 %r1, %clock, 1;", "%clock can only be read by mov"},
      {"match.any.sync.b32 %r1|%p1, %r2, -1;", "a second result stands behind '|'"},
      {"ret", "'}' stands where an operand should be"},
      {".reg .texref t;", "'.texref' is no type of registers in the emulator"},
      {".branchtargets a, b;", "the emulator does not know .branchtargets here"},
  };
  for (const auto& [body, message] : cases) {
    const std::string error = BodyError(body);
    EXPECT_TRUE(absl::StrContains(error, message)) << body << ": " << error;
    EXPECT_TRUE(absl::StrContains(error, "PTX line 6") || absl::StrContains(error, "PTX line 7"))
        << body << ": " << error;
  }
}

TEST(PtxParser, BrokenModulesAreErrors) {
  EXPECT_FALSE(ParsePtx("").ok());
  EXPECT_FALSE(ParsePtx("\x7f"
                        "ELF")
                   .ok());
  EXPECT_FALSE(ParsePtx(".version 9.0\n.address_size 64\n").ok());  // no .target
  EXPECT_EQ(ErrorOf(".global .u32 x = 1.5;"),
            "PTX line 4 '.global .u32 x = 1.5;': '1.5' is no immediate for u32");
  for (const char* text :
       {".address_size 32", ".visible .entry k(", ".entry k() {", ".entry k() { /* no end",
        ".global .u32 x = 1.5;", ".global .u32 x[2] = {1, 2, 3};",
        ".global .u32 x; .global .u32 x;", ".extern .global .u32 x;", ".shared .u32 x = 1;",
        ".global .texref t;", ".file 1 nothing", ".global .align 3 .u32 x;",
        ".entry k() { ret; } .entry k() { ret; }", ".func f(.reg .b32 %r1) { ret; }",
        ".section .debug_str {"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
}

TEST(PtxParser, ConstantMemoryHas64KiB) {
  EXPECT_EQ(ErrorOf(".const .b8 x[65000]; .const .b8 y[536];"), "");
  EXPECT_EQ(ErrorOf(".const .b8 x[65000]; .const .b8 y[537];"),
            "the variables in .const have 65537 bytes; there are 65536");
}

// Minutes, if the time of each grew with what stands before it.
TEST(PtxParser, ManyInstructionsMayStandOnOneLine) {
  constexpr int kCount = 200000;
  const std::string one = "add.s32 %r1,%r1,1; ";
  std::string body = "/* two\nlines */";
  for (int i = 0; i < kCount; ++i) body += one;
  const PtxModule module = Parsed(Kernel(body));
  const std::vector<Instruction>& parsed = module.functions.at(0).body;
  ASSERT_EQ(parsed.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(parsed.front().column, 8);
  EXPECT_EQ(parsed.back().column, 8 + static_cast<int>(one.size()) * (kCount - 1));
  EXPECT_EQ(parsed.back().line, parsed.front().line);
  EXPECT_EQ(module.TextOf(parsed.back()), "add.s32 %r1,%r1,1;");
}

TEST(PtxParser, NoTextEatsTheMemory) {
  EXPECT_NE(ErrorOf(".entry k() { .reg .b32 %r<1000000000>; ret; }"), "");
  EXPECT_NE(ErrorOf(".global .b8 x[100000000000];"), "");
  EXPECT_NE(ErrorOf(".global .b8 x[99999999][99999999][99999999];"), "");
  EXPECT_NE(ErrorOf(".global .b64 x[30000000] = {1};"), "");
  std::string rows;
  for (int i = 0; i < 1000; ++i) rows += "{},";
  EXPECT_NE(ErrorOf(".global .b8 x[9][30000000] = {" + rows + "{}};"), "");
  EXPECT_NE(ErrorOf(".entry k() { " + std::string(100000, '{')), "");
  EXPECT_NE(ErrorOf(".global .b8 x[4] = " + std::string(100000, '{')), "");
  EXPECT_NE(ErrorOf(".file 2000000000 \"x\""), "");
}

}  // namespace
}  // namespace duotone::emulator
