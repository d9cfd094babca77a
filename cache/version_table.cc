#include "cache/version_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

bool IsLegal(VersionState from, VersionState to) {
  switch (from) {
    case VersionState::kWarming:
      return to == VersionState::kServing || to == VersionState::kRetired;
    case VersionState::kServing:
      return to == VersionState::kDraining;
    case VersionState::kDraining:
      return to == VersionState::kServing || to == VersionState::kRetired;
    case VersionState::kRetired:
      break;
  }
  return false;
}

bool Allows(VersionState state, LeasePurpose purpose) {
  switch (purpose) {
    case LeasePurpose::kNew:
      return state == VersionState::kServing;
    case LeasePurpose::kHeld:
      return state == VersionState::kServing ||
             state == VersionState::kDraining;
    case LeasePurpose::kWarm:
      break;
  }
  return state == VersionState::kWarming || state == VersionState::kServing;
}

}  // namespace

VersionId VersionTable::Add(std::string_view label,
                            std::string_view fingerprint) {
  CacheVersion version;
  version.id = VersionId(next_id_++);
  version.label = label;
  version.fingerprint = fingerprint;
  versions_.push_back(std::move(version));
  return versions_.back().id;
}

absl::Status VersionTable::Move(VersionId id, VersionState to) {
  RETURN_IF_ERROR(CheckKnown(id));
  CacheVersion& version = Mutable(id);
  if (!IsLegal(version.state, to)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cache version '", version.label, "' is ",
                     VersionStateName(version.state), " and cannot become ",
                     VersionStateName(to)));
  }
  if (to == VersionState::kRetired && version.lease_count > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cache version '", version.label, "' has ",
                     version.lease_count, " leases and cannot retire"));
  }
  version.state = to;
  if (to == VersionState::kRetired) retired_.push_back(id);
  return absl::OkStatus();
}

std::optional<CacheVersion> VersionTable::ForgetOldest() {
  if (retired_.size() <= kMaxRetired) return std::nullopt;
  const CacheVersion oldest = At(retired_.front());
  retired_.pop_front();
  std::erase_if(versions_, [&oldest](const CacheVersion& version) {
    return version.id == oldest.id;
  });
  return oldest;
}

absl::Status VersionTable::CheckOpen(VersionId id, LeasePurpose purpose) const {
  RETURN_IF_ERROR(CheckKnown(id));
  const CacheVersion& version = At(id);
  if (Allows(version.state, purpose)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cache version '", version.label, "' is ",
      VersionStateName(version.state), "; ",
      purpose == LeasePurpose::kNew ? "only a serving one takes new leases"
      : purpose == LeasePurpose::kHeld
          ? "only a serving or draining one goes on with what it began"
          : "only a warming or serving one can be warmed"));
}

bool VersionTable::IsResident(VersionId id) const {
  const CacheVersion* version = Find(id);
  return version != nullptr && version->state != VersionState::kRetired;
}

void VersionTable::AddLease(VersionId id) { ++Mutable(id).lease_count; }

void VersionTable::DropLease(VersionId id) {
  KV_CHECK(At(id).lease_count > 0) << "version " << id;
  --Mutable(id).lease_count;
}

void VersionTable::CountHits(VersionId id, int64_t tokens) {
  Mutable(id).hit_tokens += tokens;
}

const CacheVersion& VersionTable::At(VersionId id) const {
  const CacheVersion* version = Find(id);
  KV_CHECK(version != nullptr) << "version " << id << " of " << next_id_;
  return *version;
}

CacheVersion& VersionTable::Mutable(VersionId id) {
  return const_cast<CacheVersion&>(std::as_const(*this).At(id));
}

const CacheVersion* VersionTable::Find(VersionId id) const {
  for (const CacheVersion& version : versions_) {
    if (version.id == id) return &version;
  }
  return nullptr;
}

absl::Status VersionTable::CheckKnown(VersionId id) const {
  if (Find(id) != nullptr) return absl::OkStatus();
  if (id.valid() && id.value() < next_id_) {
    return absl::NotFoundError(
        absl::StrCat("cache version ", id.value(), " retired long ago"));
  }
  return absl::NotFoundError(absl::StrCat("no cache version ", id.value(),
                                          "; so far there were ", next_id_));
}

}  // namespace kvasir
