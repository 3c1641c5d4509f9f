// The data readers: what they read, and one sentence for every way a file can be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "tools/data/batcher.h"
#include "tools/data/dataset.h"

namespace duotone::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ =
        std::filesystem::path(::testing::TempDir()) / ("duotone_data_" + std::string(info->name()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, std::string_view bytes) {
    const std::string path = (dir_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string WriteGzip(const std::string& name, std::string_view bytes) {
    const std::string path = (dir_ / name).string();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }
  // The four files of MNIST's layout with `train` and `test` images of 1x2 pixels.
  void WriteIdx(std::string_view train_images, std::string_view train_labels) {
    Write("train-images-idx3-ubyte", train_images);
    Write("train-labels-idx1-ubyte", train_labels);
    WriteGzip("t10k-images-idx3-ubyte.gz",
              std::string_view("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02\xff\x00", 18));
    WriteGzip("t10k-labels-idx1-ubyte.gz", std::string_view("\0\0\x08\x01\0\0\0\x01\x07", 9));
  }
  static std::string Message(const absl::StatusOr<Dataset>& dataset) {
    return dataset.ok() ? "no error" : std::string(dataset.status().message());
  }

  std::filesystem::path dir_;
};

constexpr std::string_view kTwoImages("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x00\x33\xff\x66",
                                      20);
constexpr std::string_view kTwoLabels("\0\0\x08\x01\0\0\0\x02\x03\x00", 10);

TEST_F(DataTest, IdxReadsPixelsAndLabels) {
  WriteIdx(kTwoImages, kTwoLabels);
  absl::StatusOr<Dataset> data = LoadDataset("idx:" + dir_.string(), {});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.rows, 2);
  EXPECT_THAT(data->train.fields[0].row_shape, ElementsAre(1, 2));
  EXPECT_THAT(std::get<0>(data->train.fields[0].values),
              ElementsAre(0.0f, 0x33 / 255.0f, 1.0f, 0x66 / 255.0f));
  EXPECT_THAT(std::get<1>(data->train.fields[1].values), ElementsAre(3, 0));
  EXPECT_EQ(data->test->rows, 1);
  EXPECT_EQ(data->classes, 8);
}

TEST_F(DataTest, IdxNamesTheFileThatIsWrong) {
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("train-images-idx3-ubyte.gz exists"));
  WriteIdx(kTwoImages.substr(0, 19), kTwoLabels);
  EXPECT_THAT(Message(LoadIdx(dir_.string())),
              HasSubstr("holds 3 elements, but its header claims 4"));
  WriteIdx(kTwoImages.substr(0, 10), kTwoLabels);
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("cut short within its header"));
  WriteIdx("hello, world", kTwoLabels);
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("is not an IDX file"));
  WriteIdx(kTwoImages, kTwoImages);
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("rank 3, but 1 is needed"));
  WriteIdx(kTwoImages, std::string_view("\0\0\x08\x01\0\0\0\x01\x03", 9));
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("has 2 images, but"));
  EXPECT_THAT(Message(LoadDataset("idx:/nowhere", {})), HasSubstr("there is no folder /nowhere"));
}

TEST_F(DataTest, TruncatedGzipIsNoted) {
  WriteIdx(kTwoImages, kTwoLabels);
  std::filesystem::remove(dir_ / "train-images-idx3-ubyte");
  std::string large(kTwoImages);
  const std::string path = WriteGzip("train-images-idx3-ubyte.gz", kTwoImages);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 6);
  EXPECT_THAT(Message(LoadIdx(dir_.string())), HasSubstr("damaged or cut short"));
}

TEST_F(DataTest, CsvHoldsTheLastTenthOut) {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 20; ++i)
    text += std::to_string(i) + ", 0.5," + std::to_string(i % 3) + "\r\n";
  absl::StatusOr<Dataset> data = LoadCsv(Write("d.csv", text));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.rows, 18);
  EXPECT_EQ(data->test->rows, 2);
  EXPECT_EQ(data->classes, 3);
  EXPECT_THAT(std::get<0>(data->test->fields[0].values), ElementsAre(18.0f, 0.5f, 19.0f, 0.5f));
}

TEST_F(DataTest, CsvErrorsNameLineAndColumn) {
  EXPECT_THAT(Message(LoadCsv(Write("a.csv", "1,2,0\n1,2\n"))),
              HasSubstr("a.csv:2: 2 columns, but the first row has 3"));
  EXPECT_THAT(Message(LoadCsv(Write("b.csv", "1,x,0\n"))),
              HasSubstr("b.csv:1: column 2, 'x', is not a number"));
  EXPECT_THAT(Message(LoadCsv(Write("c.csv", "1,nan,0\n"))), HasSubstr("c.csv:1: column 2 is nan"));
  EXPECT_THAT(Message(LoadCsv(Write("d.csv", "1,1e60,0\n"))), HasSubstr("column 2 is 1e60"));
  EXPECT_THAT(Message(LoadCsv(Write("e.csv", "1,2,-1\n"))), HasSubstr("label '-1'"));
  EXPECT_THAT(Message(LoadCsv(Write("f.csv", "1,2,0.5\n"))), HasSubstr("label '0.5'"));
  EXPECT_THAT(Message(LoadCsv(Write("g.csv", ""))), HasSubstr("has no rows"));
  EXPECT_THAT(Message(LoadCsv(dir_.string())), HasSubstr("not a regular file"));
  EXPECT_THAT(Message(LoadCsv("/nowhere/x.csv")), HasSubstr("cannot open /nowhere/x.csv"));
}

TEST_F(DataTest, TextTargetsAreTheNextCharacters) {
  // 20 characters: 18 to train on, 2 held out, windows of 4; codes a=0, b=1.
  absl::StatusOr<Dataset> data = LoadText(Write("t.txt", "abbaabbaabbaabbaabba"), 4);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->classes, 2);
  EXPECT_EQ(data->train.rows, 4);
  EXPECT_FALSE(data->test.has_value());
  const auto& x = std::get<1>(data->train.fields[0].values);
  const auto& y = std::get<1>(data->train.fields[1].values);
  EXPECT_EQ(std::vector<int32_t>(x.begin(), x.begin() + 4), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(std::vector<int32_t>(y.begin(), y.begin() + 4), (std::vector<int32_t>{1, 1, 0, 0}));
  EXPECT_THAT(Message(LoadText(Write("s.txt", "ab"), 4)),
              HasSubstr("has 2 characters, too few for windows of 4"));
}

// A .npy array of version 1.0 with little-endian elements.
std::string Npy(const std::string& descr, const std::string& shape, std::string_view data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 63) / 64 * 64 - 10, ' ');
  std::string npy("\x93NUMPY\x01\x00", 8);
  npy += static_cast<char>(header.size() & 0xff);
  npy += static_cast<char>(header.size() >> 8);
  return npy + header + std::string(data);
}

template <typename T>
std::string Bytes(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void Append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
}

// A zip archive of stored or deflated members.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& members, bool deflated) {
  std::string zip, directory;
  for (const auto& [name, data] : members) {
    std::string packed = data;
    if (deflated) {
      packed.resize(compressBound(data.size()) + 16);
      z_stream stream{};
      deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
      stream.avail_in = static_cast<uInt>(data.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const size_t local = zip.size();
    const uint64_t crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<z_size_t>(data.size()));
    Append(zip, 0x04034b50, 4);
    Append(zip, 20, 2), Append(zip, 0, 2), Append(zip, deflated ? 8 : 0, 2), Append(zip, 0, 4),
        Append(zip, crc, 4);
    Append(zip, packed.size(), 4), Append(zip, data.size(), 4), Append(zip, name.size(), 2),
        Append(zip, 0, 2);
    zip += name + packed;
    Append(directory, 0x02014b50, 4);
    Append(directory, 20, 2), Append(directory, 20, 2), Append(directory, 0, 2),
        Append(directory, deflated ? 8 : 0, 2);
    Append(directory, 0, 4), Append(directory, crc, 4), Append(directory, packed.size(), 4),
        Append(directory, data.size(), 4);
    Append(directory, name.size(), 2), Append(directory, 0, 12), Append(directory, local, 4);
    directory += name;
  }
  const size_t start = zip.size();
  zip += directory;
  Append(zip, 0x06054b50, 4), Append(zip, 0, 4), Append(zip, members.size(), 2),
      Append(zip, members.size(), 2);
  Append(zip, directory.size(), 4), Append(zip, start, 4), Append(zip, 0, 2);
  return zip;
}

TEST_F(DataTest, NpzReadsStoredAndDeflatedArrays) {
  for (bool deflated : {false, true}) {
    const std::string zip = Zip({{"x.npy", Npy("<f4", "2, 2", Bytes<float>({1, 2, 3, 4}))},
                                 {"y.npy", Npy("<i8", "2,", Bytes<int64_t>({4, 0}))}},
                                deflated);
    absl::StatusOr<Dataset> data = LoadNpz(Write("d.npz", zip));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_THAT(std::get<0>(data->train.fields[0].values), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(std::get<1>(data->train.fields[1].values), ElementsAre(4, 0));
    EXPECT_EQ(data->classes, 5);
  }
}

TEST_F(DataTest, NpzErrorsNameTheArray) {
  auto load = [&](std::string x) {
    return Message(LoadNpz(Write(
        "d.npz", Zip({{"x.npy", x}, {"y.npy", Npy("<i4", "1,", Bytes<int32_t>({0}))}}, false))));
  };
  EXPECT_THAT(load(Npy("<f4", "1, 2", Bytes<float>({1, NAN}))),
              HasSubstr("array x: element 1 is nan"));
  EXPECT_THAT(load(Npy("<f4", "1, 3", Bytes<float>({1, 2}))),
              HasSubstr("holds 8 bytes, which do not fit 3 elements"));
  EXPECT_THAT(load(Npy("<c8", "1", Bytes<float>({1, 2}))),
              HasSubstr("unsupported element type <c8"));
  EXPECT_THAT(load(Npy("<f4", "-1, 3", "")), HasSubstr("unreadable shape"));
  EXPECT_THAT(load("junk"), HasSubstr("array x is not a NumPy array"));
  EXPECT_THAT(load(Npy("<f4", "2, 1", Bytes<float>({1, 2}))),
              HasSubstr("array y has 1 rows, but x has 2"));
  EXPECT_THAT(Message(LoadNpz(Write("e.npz", "not a zip file at all"))),
              HasSubstr("is not a zip archive"));
  EXPECT_THAT(Message(LoadNpz(Write("f.npz", Zip({}, false)))), HasSubstr("has no array x"));
}

// Every prefix and many single-byte corruptions of a valid archive are read or refused, never
// worse.
TEST_F(DataTest, DamagedNpzNeverCrashes) {
  const std::string zip = Zip({{"x.npy", Npy("<f4", "2, 2", Bytes<float>({1, 2, 3, 4}))},
                               {"y.npy", Npy("<i8", "2,", Bytes<int64_t>({4, 0}))}},
                              true);
  int refused = 0;
  for (size_t i = 0; i < zip.size(); ++i) {
    refused += !LoadNpz(Write("p.npz", zip.substr(0, i))).ok();
    std::string damaged = zip;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    (void)LoadNpz(Write("q.npz", damaged));
  }
  EXPECT_EQ(refused, static_cast<int>(zip.size()));
}

// A flipped bit in the numbers themselves is found by the archive's checksum.
TEST_F(DataTest, DamagedNumbersInNpzAreFound) {
  std::string zip = Zip({{"x.npy", Npy("<f4", "2, 2", Bytes<float>({1, 2, 3, 4}))},
                         {"y.npy", Npy("<i8", "2,", Bytes<int64_t>({4, 0}))}},
                        false);
  const size_t four = zip.find(Bytes<float>({4}));
  ASSERT_NE(four, std::string::npos);
  zip[four] ^= 1;
  EXPECT_THAT(Message(LoadNpz(Write("d.npz", zip))),
              HasSubstr("the checksum of member x.npy does not fit"));
}

TEST_F(DataTest, UnknownSpecsListTheKnownOnes) {
  EXPECT_THAT(Message(LoadDataset("cifar", {})),
              HasSubstr("unknown data set; known are\n  fashion-mnist"));
  EXPECT_THAT(Message(LoadDataset("csv:", {})), HasSubstr("the path after the colon is missing"));
  EXPECT_THAT(Message(LoadDataset("fashion-mnist", {.data_dir = "/nowhere"})),
              HasSubstr("there is no folder /nowhere"));
}

Part TenRows() {
  Part part{.rows = 10};
  std::vector<float> x(20);
  std::vector<int32_t> y(10);
  for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i);
  for (int i = 0; i < 10; ++i) y[i] = i;
  part.fields = {{"x", {2}, x}, {"y", {}, y}};
  return part;
}

TEST(BatcherTest, EveryEpochVisitsEveryRowOnceInItsOwnOrder) {
  absl::StatusOr<Batcher> batcher =
      Batcher::Create(TenRows(), {{"images", DType::kF32, {2}}, {"label", DType::kI32, {}}}, 4);
  ASSERT_TRUE(batcher.ok()) << batcher.status();
  ASSERT_EQ(batcher->batches_per_epoch(), 3);
  std::vector<std::vector<int32_t>> epochs;
  for (int64_t epoch : {0, 1, 0}) {
    std::vector<int32_t> seen;
    for (int64_t i = 0; i < 3; ++i) {
      Batch batch;
      batcher->Shuffled(7, epoch, i, batch);
      EXPECT_EQ(batch.rows, i < 2 ? 4 : 2);
      for (int64_t r = 0; r < batch.rows; ++r) {
        int32_t label;
        float first;
        std::memcpy(&label, batch.inputs[1].data() + 4 * r, 4);
        std::memcpy(&first, batch.inputs[0].data() + 8 * r, 4);
        EXPECT_EQ(first, 2.0f * static_cast<float>(label));
        seen.push_back(label);
      }
    }
    EXPECT_EQ(std::set<int32_t>(seen.begin(), seen.end()).size(), 10u);
    epochs.push_back(seen);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
}

TEST(BatcherTest, MismatchesNameBothSides) {
  auto message = [](std::vector<InputSpec> inputs) {
    auto batcher = Batcher::Create(TenRows(), std::move(inputs), 4);
    return batcher.ok() ? "no error" : std::string(batcher.status().message());
  };
  EXPECT_THAT(message({{"x", DType::kF32, {3}}}),
              HasSubstr("%x takes rows of f32[3], but the data's x has rows of f32[2]"));
  EXPECT_THAT(message({{"x", DType::kI32, {2}}}),
              HasSubstr("%x takes i32, but the data's x has f32 values"));
  EXPECT_THAT(message({{"a", DType::kF32, {2}}, {"b", DType::kI32, {}}, {"c", DType::kI32, {}}}),
              HasSubstr("3 inputs, but the data has 2 fields"));
}

}  // namespace
}  // namespace duotone::tools
