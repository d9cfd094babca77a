#include "engine/version_keeper.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

// The keeper's and the directory's own.
constexpr long kOwnHolders = 2;

}  // namespace

absl::Status CheckResidentCount(size_t count) {
  if (count < kMaxResidentVersions) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("wanted fewer than ", kMaxResidentVersions,
                   " versions resident, found ", count, "; delete one"));
}

VersionKeeper::VersionKeeper(KvCache* cache, VersionDirectory* directory)
    : cache_(cache), directory_(directory) {}

VersionKeeper::~VersionKeeper() {
  if (burial_.joinable()) burial_.join();
}

absl::Status VersionKeeper::CheckLabel(std::string_view label) const {
  for (const Entry& entry : entries_) {
    if (entry.info.label != label) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("label: a version of ", QuoteText(entry.info.model),
                     " is called ", QuoteText(label), " already"));
  }
  return absl::OkStatus();
}

absl::StatusOr<VersionInfo> VersionKeeper::Add(ServedVersion::Parts parts,
                                               VersionInfo info) {
  RETURN_IF_ERROR(CheckResidentCount(entries_.size()));
  RETURN_IF_ERROR(CheckLabel(info.label));
  info.id =
      cache_->AddVersion(info.label, info.fingerprint, VersionState::kWarming);
  if (info.quota_blocks > 0) {
    cache_->SetVersionQuota(info.id, info.quota_blocks);
  }
  info.state = VersionState::kWarming;
  info.active = false;
  info.retiring = false;
  parts.id = info.id;
  const bool first = ActiveOf(info.model) == nullptr;
  // Behind its model's others, so that the first model is the first whichever
  // versions come and go.
  auto place = entries_.end();
  while (!first && std::prev(place)->info.model != info.model) --place;
  const auto added = entries_.insert(
      place, {std::make_shared<const ServedVersion>(std::move(parts)), info});
  if (first) {
    Move(*added, VersionState::kServing);
    added->info.active = true;
  }
  Publish();
  return added->info;
}

absl::StatusOr<VersionInfo> VersionKeeper::BeginServing(VersionId id) {
  Entry* const entry = FindEntry(id);
  KV_CHECK(entry != nullptr) << "version " << id;
  if (entry->info.retiring) {
    return absl::FailedPreconditionError(
        absl::StrCat(QuoteText(entry->info.label), " has been deleted"));
  }
  // Somebody may have activated it before it was full.
  if (entry->info.state == VersionState::kWarming) {
    Move(*entry, VersionState::kServing);
  }
  Publish();
  return entry->info;
}

absl::StatusOr<VersionInfo> VersionKeeper::Activate(std::string_view model,
                                                    std::string_view label) {
  ASSIGN_OR_RETURN(Entry* const entry, Named(model, label));
  if (entry->info.retiring) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version: ", QuoteText(label), " has been deleted and retires"));
  }
  if (entry->info.active) return entry->info;
  if (const Entry* before = ActiveOf(entry->info.model); before != nullptr) {
    std::vector<VersionId>& history = history_[entry->info.model];
    // One place for each: going to and fro does not make it longer.
    std::erase(history, before->info.id);
    std::erase(history, entry->info.id);
    history.push_back(before->info.id);
  }
  MakeActive(*entry);
  return entry->info;
}

absl::StatusOr<VersionInfo> VersionKeeper::RollBack(std::string_view model) {
  ASSIGN_OR_RETURN(const std::string name, ModelOrFirst(model));
  std::vector<VersionId>& history = history_[name];
  if (history.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model: no earlier version of ", QuoteText(name), " is resident"));
  }
  Entry* const entry = FindEntry(history.back());
  KV_CHECK(entry != nullptr && !entry->info.retiring);
  history.pop_back();
  MakeActive(*entry);
  return entry->info;
}

absl::StatusOr<VersionInfo> VersionKeeper::Delete(std::string_view model,
                                                  std::string_view label) {
  ASSIGN_OR_RETURN(Entry* const entry, Named(model, label));
  if (entry->info.active) {
    return absl::FailedPreconditionError(
        absl::StrCat("version: ", QuoteText(label),
                     " is the active one; activate another first"));
  }
  if (entry->info.retiring) return entry->info;
  if (entry->info.state == VersionState::kServing) {
    Move(*entry, VersionState::kDraining);
  }
  entry->info.retiring = true;
  ++retiring_;
  std::erase(history_[entry->info.model], entry->info.id);
  Publish();
  return entry->info;
}

void VersionKeeper::DeleteUnserved(VersionId id) {
  const Entry* const entry = FindEntry(id);
  if (entry == nullptr || entry->info.state != VersionState::kWarming) return;
  const absl::StatusOr<VersionInfo> deleted =
      Delete(entry->info.model, entry->info.label);
  KV_CHECK(deleted.ok()) << deleted.status();
}

void VersionKeeper::RetireUnheld() {
  dropping_ = false;
  if (retiring_ == 0) return;
  for (size_t i = 0; i < entries_.size();) {
    Entry& entry = entries_[i];
    // Nobody can get hold of it any more, so the count only falls.
    if (!entry.info.retiring || entry.version.use_count() > kOwnHolders ||
        cache_->LeaseCount(entry.info.id) > 0) {
      ++i;
      continue;
    }
    // The blocks go slice by slice, while requests of other versions run.
    dropping_ = !cache_->ContinueDrop(entry.info.id);
    if (dropping_) return;
    Move(entry, VersionState::kRetired);
    std::shared_ptr<const ServedVersion> version = std::move(entry.version);
    entries_.erase(entries_.begin() + i);
    --retiring_;
    Publish();
    LetGo(std::move(version));
  }
}

// Gigabytes of weights take longer to unmap than streams should wait.
void VersionKeeper::LetGo(std::shared_ptr<const ServedVersion> version) {
  if (burial_.joinable()) burial_.join();
  burial_ =
      std::thread([last = std::move(version)]() mutable { last.reset(); });
}

std::vector<VersionInfo> VersionKeeper::List() const {
  std::vector<VersionInfo> infos;
  for (const Entry& entry : entries_) infos.push_back(entry.info);
  return infos;
}

const ServedVersion* VersionKeeper::Find(VersionId id) const {
  const Entry* entry = const_cast<VersionKeeper*>(this)->FindEntry(id);
  return entry == nullptr ? nullptr : entry->version.get();
}

std::shared_ptr<const ServedVersion> VersionKeeper::Share(VersionId id) const {
  const Entry* entry = const_cast<VersionKeeper*>(this)->FindEntry(id);
  KV_CHECK(entry != nullptr) << "version " << id;
  return entry->version;
}

bool VersionKeeper::IsKept(VersionId id) const {
  const Entry* entry = const_cast<VersionKeeper*>(this)->FindEntry(id);
  return entry != nullptr && !entry->info.retiring;
}

VersionId VersionKeeper::ActiveVersion(std::string_view model) const {
  const Entry* entry = const_cast<VersionKeeper*>(this)->ActiveOf(model);
  KV_CHECK(entry != nullptr) << "model " << std::string(model);
  return entry->info.id;
}

VersionKeeper::Entry* VersionKeeper::FindEntry(VersionId id) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [id](const Entry& entry) { return entry.info.id == id; });
  return found == entries_.end() ? nullptr : &*found;
}

absl::StatusOr<VersionKeeper::Entry*> VersionKeeper::Named(
    std::string_view model, std::string_view label) {
  for (Entry& entry : entries_) {
    if (entry.info.label == label &&
        (model.empty() || entry.info.model == model)) {
      return &entry;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "version: no version ", QuoteText(label), model.empty() ? "" : " of ",
      model.empty() ? "" : QuoteText(model), " is resident"));
}

absl::StatusOr<std::string> VersionKeeper::ModelOrFirst(
    std::string_view model) const {
  for (const Entry& entry : entries_) {
    if (model.empty() || entry.info.model == model) return entry.info.model;
  }
  return absl::NotFoundError(
      absl::StrCat("model: no model ", QuoteText(model), " is loaded"));
}

VersionKeeper::Entry* VersionKeeper::ActiveOf(std::string_view model) {
  for (Entry& entry : entries_) {
    if (entry.info.active && entry.info.model == model) return &entry;
  }
  return nullptr;
}

void VersionKeeper::Move(Entry& entry, VersionState to) {
  const absl::Status moved = cache_->MoveVersion(entry.info.id, to);
  KV_CHECK(moved.ok()) << moved;
  entry.info.state = to;
}

void VersionKeeper::MakeActive(Entry& entry) {
  if (Entry* before = ActiveOf(entry.info.model); before != nullptr) {
    before->info.active = false;
    Move(*before, VersionState::kDraining);
  }
  if (entry.info.state != VersionState::kServing) {
    Move(entry, VersionState::kServing);
  }
  entry.info.active = true;
  Publish();
}

void VersionKeeper::Publish() { directory_->Publish(entries_); }

}  // namespace kvasir
