#include <filesystem>

#include "tests/fuzz/file_target.h"
#include "trainer/reader/cifar.h"

namespace tandem {

FuzzTarget MakeFuzzTarget() {
  const std::string record = '\3' + std::string(3072, 'p');
  return {{record, record + record}, {}, FileAccepts([](const std::string& path) -> Status {
            const std::filesystem::path dir = std::filesystem::path(path).parent_path();
            std::filesystem::rename(path, dir / "test_batch.bin");
            TD_ASSIGN_OR_RETURN(const auto data,
                                reader::OpenCifar10({.dir = dir.string(), .train = false}));
            return Checked(*data);
          })};
}

}  // namespace tandem
