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

absl::Status UnknownVersion(VersionId id, size_t count) {
  return absl::NotFoundError(absl::StrCat("no cache version ", id.value(),
                                          "; there are ", count, " from 0 on"));
}

}  // namespace

absl::string_view VersionStateName(VersionState state) {
  switch (state) {
    case VersionState::kWarming:
      return "warming";
    case VersionState::kServing:
      return "serving";
    case VersionState::kDraining:
      return "draining";
    case VersionState::kRetired:
      break;
  }
  return "retired";
}

VersionId VersionTable::Add(std::string_view label,
                            std::string_view fingerprint) {
  CacheVersion version;
  version.id = VersionId(static_cast<VersionId::Value>(versions_.size()));
  version.label = label;
  version.fingerprint = fingerprint;
  versions_.push_back(std::move(version));
  return versions_.back().id;
}

absl::Status VersionTable::Move(VersionId id, VersionState to) {
  if (!Knows(id)) return UnknownVersion(id, versions_.size());
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
  return absl::OkStatus();
}

absl::Status VersionTable::CheckOpen(VersionId id, LeasePurpose purpose) const {
  if (!Knows(id)) return UnknownVersion(id, versions_.size());
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

void VersionTable::SetQuota(VersionId id, int64_t blocks) {
  KV_CHECK(blocks >= 0) << blocks;
  Mutable(id).quota_blocks = blocks;
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
  KV_CHECK(Knows(id)) << "version " << id << " of " << versions_.size();
  return versions_[id.value()];
}

CacheVersion& VersionTable::Mutable(VersionId id) {
  return const_cast<CacheVersion&>(std::as_const(*this).At(id));
}

bool VersionTable::Knows(VersionId id) const {
  return id.valid() && static_cast<size_t>(id.value()) < versions_.size();
}

}  // namespace kvasir
