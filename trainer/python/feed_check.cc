#include "trainer/python/feed_check.h"

#include <set>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"

namespace tandem::python {
namespace {

std::string Expected(const graph::Var& var) {
  std::vector<std::string> dims;
  for (const int64_t dim : var.desc.shape.dims()) dims.push_back(std::to_string(dim));
  if (var.batch_leading) dims[0] = "batch";
  return "[" + absl::StrJoin(dims, ",") + "]";
}

Status CheckShape(const graph::Var& var, const std::vector<int64_t>& dims) {
  TD_REQUIRE(var.kind == graph::VarKind::kData);
  const Shape& shape = var.desc.shape;
  bool fits = static_cast<int>(dims.size()) == shape.rank();
  for (int axis = var.batch_leading ? 1 : 0; fits && axis < shape.rank(); ++axis) {
    fits = dims[static_cast<size_t>(axis)] == shape[axis];
  }
  if (fits && var.batch_leading) fits = dims[0] >= 1;
  if (fits) return OkStatus();
  return InvalidArgument("feed \"%s\": the array has the shape [%s], expected %s [TD1207]",
                         var.name, absl::StrJoin(dims, ","), Expected(var));
}

// Returns the names of the data variables that operators of the program read.
std::set<std::string> ReadData(const graph::Program& program) {
  std::set<std::string> names;
  for (const ops::Op& op : program.ops) {
    graph::ForEachRead(op, [&](const std::string& name) {
      if (program.FindVar(name)->kind == graph::VarKind::kData) names.insert(name);
    });
  }
  return names;
}

}  // namespace

StatusOr<int64_t> BindFeed(graph::Program& program,
                           const std::map<std::string, std::vector<int64_t>>& feed) {
  std::vector<std::string> known;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) known.push_back(var->name);
  const graph::Var* first = nullptr;
  int64_t batch = 1;
  for (const auto& [name, dims] : feed) {
    const graph::Var* const var = program.FindVar(name);
    if (var == nullptr || var->kind != graph::VarKind::kData) {
      return NotFound("feed: program \"%s\" has no data variable \"%s\" (it has: %s) [TD1205]%s",
                      program.name, name, absl::StrJoin(known, ", "), OrDidYouMean(name, known));
    }
    TD_RETURN_IF_ERROR(CheckShape(*var, dims));
    if (!var->batch_leading) continue;
    if (first != nullptr && dims[0] != batch) {
      return InvalidArgument(
          "feed: \"%s\" has a batch of %d samples, but \"%s\" has %d samples [TD1207]", name,
          dims[0], first->name, batch);
    }
    first = var;
    batch = dims[0];
  }
  for (const std::string& name : ReadData(program)) {
    if (feed.contains(name)) continue;
    return InvalidArgument("feed: data variable \"%s\" of program \"%s\" is not fed [TD1205]", name,
                           program.name);
  }
  TD_RETURN_IF_ERROR(graph::BindBatch(program, batch));
  return batch;
}

Status CheckFetch(const graph::Program& program, const std::vector<std::string>& fetch) {
  for (const std::string& name : fetch) {
    if (program.FindVar(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const graph::Var& var : program.vars()) known.push_back(var.name);
    return NotFound("fetch_list: program \"%s\" has no variable \"%s\" [TD1205]%s", program.name,
                    name, OrDidYouMean(name, known));
  }
  return OkStatus();
}

Status CheckInitialized(const graph::Program& program, const exec::Scope& scope) {
  for (const graph::Var& var : program.vars()) {
    const bool lasting = var.kind == graph::VarKind::kParam || var.kind == graph::VarKind::kState;
    if (!lasting || scope.Find(var.name) != nullptr) continue;
    return FailedPrecondition(
        "program \"%s\": variable \"%s\" has no value in the scope [TD1219]; hint: run the startup "
        "program first: exe.run(tandem.default_startup_program())",
        program.name, var.name);
  }
  return OkStatus();
}

}  // namespace tandem::python
