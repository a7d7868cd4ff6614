// Fuzz target: a tf.train.Example message in a valid frame, followed by valid messages.
#include "tests/fuzz/file_target.h"
#include "trainer/reader/example_records.h"
#include "trainer/reader/input/record_io.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() {
  const auto accepts = [dir = std::make_shared<TempDir>(), valid = ValidExample(),
                        format = ReaderFormatOf("tfrecord")](std::string_view input) {
    const auto text = reader::DescribeExample(input, 4);
    CHECK(text.ok() || text.status().code() == StatusCode::kDataLoss) << text.status();
    const std::string path = *dir / "file";
    std::filesystem::remove(path);
    auto writer = reader::RecordWriter::Create(path, reader::RecordFormat::kTfRecord);
    CHECK(writer.ok()) << writer.status();
    CHECK((*writer)->Add(input).ok());
    for (int i = 0; i < 4; ++i) CHECK((*writer)->Add(valid).ok());
    CHECK((*writer)->Finish().ok());
    const auto data = format.open(path);
    CHECK(CheckedBoth(data).ok()) << data.status();
    return data->train->size() + data->test->size() == 5;
  };
  return {{ValidExample()}, {"x", "label"}, accepts};
}

}  // namespace tandem
