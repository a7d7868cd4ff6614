#include "trainer/session/sample_images.h"

#include <algorithm>

#include "common/base/check.h"
#include "proto/job.pb.h"
#include "trainer/reader/images/image_list.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {

Status SampleImagesIn(const JobConfig& config, graph::Program& program) {
  TD_ASSIGN_OR_RETURN(const reader::ImageListOptions options,
                      reader::ImageOptionsOf(config.data(), ""));
  const ops::ImageForm form = reader::FormOf(options);
  const int64_t size = form.size;
  graph::Var* image = program.FindVar(reader::kImageField);
  if (image == nullptr || image->kind != graph::VarKind::kData || image->desc.shape.rank() == 0) {
    return InvalidArgument("use_dali: the program has no data variable \"%s\" [TD1208]",
                           reader::kImageField);
  }
  const int64_t batch = image->desc.shape[0];
  const TensorDesc made = {
      DType::kF32, form.channels_last ? Shape{batch, size, size, 3} : Shape{batch, 3, size, size}};
  if (image->desc != made) {
    return InvalidArgument(
        "data variable \"%s\" of the program is %s, but data.images makes %s [TD1208]",
        reader::kImageField, ToString(image->desc), ToString(made));
  }
  image->kind = graph::VarKind::kTemp;
  image->batch_leading = false;
  const auto add = [&program](const char* name, DType dtype, const Shape& shape) {
    return program.AddVar({.name = name,
                           .kind = graph::VarKind::kData,
                           .desc = {dtype, shape},
                           .batch_leading = true});
  };
  TD_RETURN_IF_ERROR(add(reader::kImagePixels, DType::kU8, {batch, 12 * size * size}));
  TD_RETURN_IF_ERROR(add(reader::kImageSizes, DType::kI64, {batch, 3}));
  TD_RETURN_IF_ERROR(add(reader::kImageTaps, DType::kI32, {batch, 2, size}));
  TD_RETURN_IF_ERROR(graph::AppendOp(
      program, {.type = "sample_image",
                .inputs = {{reader::kImagePixels}, {reader::kImageSizes}, {reader::kImageTaps}},
                .outputs = {{reader::kImageField}},
                .attrs = {{"scale", std::vector<double>(form.scale.begin(), form.scale.end())},
                          {"bias", std::vector<double>(form.bias.begin(), form.bias.end())},
                          {"channels_last", form.channels_last}}}));
  DCHECK(!program.ops.empty());
  std::rotate(program.ops.begin(), program.ops.end() - 1, program.ops.end());
  return OkStatus();
}

}  // namespace tandem::trainer
