#include "pserver/client/job/table_rows.h"

#include <algorithm>

#include "common/base/require.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {

bool HasConsistentLengths(const TableRows& rows) {
  const int used = rows.show_size(), counted = rows.click_size();
  const int waiting = rows.waiting_id_size();
  return (used == 0 || used == rows.id_size()) && rows.age_size() == used &&
         (counted == 0 || counted == used) && rows.brief_size() == counted &&
         rows.waiting_seen_size() == waiting && rows.waiting_age_size() == waiting;
}

void AddUse(std::span<const PsTableRows::Use> use, bool counted, TableRows* rows) {
  for (const PsTableRows::Use& one : use) {
    rows->add_show(one.show);
    rows->add_age(one.age);
    if (!counted) continue;
    rows->add_click(one.click);
    rows->add_brief(one.brief);
  }
}

std::vector<size_t> PsTableRows::Begins() const {
  const auto is_brief = [](const Use& one) { return one.brief; };
  const auto briefs = static_cast<size_t>(std::count_if(use.begin(), use.end(), is_brief));
  const size_t of_brief = 1 + slots.size(), full = ids.size() - briefs;
  const size_t of_full = full == 0 ? 0 : (content.size() - briefs * of_brief) / full;
  std::vector<size_t> begins = {0};
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool brief = !use.empty() && use[i].brief;
    begins.push_back(begins.back() + (brief ? of_brief : of_full));
  }
  return begins;
}

PsTableRows RowsFromProto(const TableRows& rows) {
  TD_REQUIRE(HasConsistentLengths(rows));
  PsTableRows page{.variable = rows.variable(), .ids = {rows.id().begin(), rows.id().end()}};
  page.content.resize(rows.content().size() / sizeof(float));
  std::copy(rows.content().begin(), rows.content().end(),
            reinterpret_cast<char*>(page.content.data()));
  for (int i = 0; i < rows.show_size(); ++i) {
    PsTableRows::Use& use = page.use.emplace_back();
    use.show = rows.show(i);
    use.age = rows.age(i);
    if (rows.click_size() == 0) continue;
    use.click = rows.click(i);
    use.brief = rows.brief(i);
  }
  for (int i = 0; i < rows.waiting_id_size(); ++i) {
    page.waiting.push_back({rows.waiting_id(i), rows.waiting_seen(i), rows.waiting_age(i)});
  }
  return page;
}

}  // namespace tandem::ps
