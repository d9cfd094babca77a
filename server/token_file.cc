#include "server/token_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "cache/base/status_macros.h"
#include "server/small_file.h"
#include "server/text.h"
#include "server/yaml_place.h"
#include "yaml-cpp/yaml.h"

namespace kvasir {
namespace {

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c < '\x7f'; });
}

struct ParsedTokens {
  std::vector<TokenEntry> entries;
  bool plain = false;  // a token stands there itself
};

// Reads the list, with the file's name for errors.
class TokenReader {
 public:
  explicit TokenReader(const std::string& name) : name_(name) {}

  absl::StatusOr<ParsedTokens> Read(const YAML::Node& root) {
    if (!root.IsMap() || root.size() != 1 || !root["tokens"] ||
        !root["tokens"].IsSequence()) {
      return Fault(root, "wanted `tokens:` and a list");
    }
    for (const YAML::Node& node : root["tokens"]) {
      RETURN_IF_ERROR(ReadEntry(node));
    }
    if (parsed_.entries.empty()) return Fault(root, "wanted at least one");
    return std::move(parsed_);
  }

  absl::Status Fault(const YAML::Mark& mark, std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(YamlPlace(name_, mark), ": ", View(what)));
  }

 private:
  absl::Status Fault(const YAML::Node& node, std::string_view what) const {
    return Fault(node.Mark(), what);
  }

  absl::StatusOr<std::string> Text(const YAML::Node& node,
                                   std::string_view what) const {
    if (node.IsScalar()) return node.Scalar();
    return Fault(node, absl::StrCat(View(what), ": wanted one value"));
  }

  absl::Status ReadEntry(const YAML::Node& node) {
    if (!node.IsMap()) {
      return Fault(node, "wanted tenant, token or sha256, and scopes");
    }
    TokenEntry entry;
    entry.caller.may_infer = entry.caller.may_admin = false;
    bool has_digest = false;
    for (const auto& field : node) {
      const YAML::Node& key_node = field.first;
      const YAML::Node& value = field.second;
      ASSIGN_OR_RETURN(const std::string key, Text(key_node, "key"));
      if (key == "tenant") {
        RETURN_IF_ERROR(ReadTenant(value, entry.caller));
      } else if ((key == "token" || key == "sha256") && !has_digest) {
        has_digest = true;
        RETURN_IF_ERROR(key == "token" ? ReadToken(value, entry.digest)
                                       : ReadDigest(value, entry.digest));
      } else if (key == "scopes") {
        RETURN_IF_ERROR(ReadScopes(value, entry.caller));
      } else {
        return Fault(key_node,
                     "wanted tenant, one of token and sha256, and scopes as "
                     "keys, found another or one twice");
      }
    }
    if (entry.caller.tenant.empty()) return Fault(node, "wanted a tenant");
    if (!has_digest) return Fault(node, "wanted a token or sha256");
    if (!entry.caller.may_infer && !entry.caller.may_admin) {
      return Fault(node, "wanted scopes");
    }
    return Add(node, std::move(entry));
  }

  absl::Status Add(const YAML::Node& node, TokenEntry entry) {
    if (parsed_.entries.size() == kMaxTokens) {
      return Fault(node, absl::StrCat("wanted at most ", kMaxTokens));
    }
    for (const TokenEntry& other : parsed_.entries) {
      if (other.digest == entry.digest) {
        return Fault(node, "wanted each token once, found one twice");
      }
    }
    parsed_.entries.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::Status ReadTenant(const YAML::Node& node, Caller& caller) {
    ASSIGN_OR_RETURN(caller.tenant, Text(node, "tenant"));
    if (!caller.tenant.empty() && caller.tenant.size() <= kMaxTenantBytes &&
        IsVisible(caller.tenant) &&
        caller.tenant.find('/') == std::string::npos) {
      return absl::OkStatus();
    }
    return Fault(node, absl::StrCat("tenant: wanted 1 to ", kMaxTenantBytes,
                                    " visible ASCII characters without /"));
  }

  absl::Status ReadToken(const YAML::Node& node, TokenDigest& digest) {
    ASSIGN_OR_RETURN(const std::string token, Text(node, "token"));
    if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes ||
        !IsVisible(token)) {
      return Fault(node, absl::StrCat("token: wanted ", kMinTokenBytes, " to ",
                                      kMaxTokenBytes,
                                      " visible ASCII characters, found ",
                                      token.size(), " bytes"));
    }
    parsed_.plain = true;
    digest = DigestOf(token);
    return absl::OkStatus();
  }

  absl::Status ReadDigest(const YAML::Node& node, TokenDigest& digest) {
    ASSIGN_OR_RETURN(const std::string hex, Text(node, "sha256"));
    if (hex.size() != 2 * digest.size() ||
        !std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit)) {
      return Fault(node, absl::StrCat("sha256: wanted ", 2 * digest.size(),
                                      " hex digits"));
    }
    const std::string bytes = absl::HexStringToBytes(hex);
    std::copy(bytes.begin(), bytes.end(), digest.begin());
    return absl::OkStatus();
  }

  absl::Status ReadScopes(const YAML::Node& node, Caller& caller) {
    if (!node.IsSequence()) {
      return Fault(node, "scopes: wanted a list of inference and admin");
    }
    for (const YAML::Node& item : node) {
      ASSIGN_OR_RETURN(const std::string scope, Text(item, "scopes"));
      if (scope != "inference" && scope != "admin") {
        return Fault(item, "scopes: wanted inference or admin");
      }
      (scope == "admin" ? caller.may_admin : caller.may_infer) = true;
    }
    return absl::OkStatus();
  }

  const std::string& name_;
  ParsedTokens parsed_;
};

absl::StatusOr<ParsedTokens> Parse(const std::string& name,
                                   const std::string& text) {
  TokenReader reader(name);
  // The library reports by exception; none leaves this function. Its words are
  // about YAML and not about what stands there.
  try {
    return reader.Read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return reader.Fault(error.mark, "wanted YAML");
  }
}

}  // namespace

absl::StatusOr<std::vector<TokenEntry>> ParseTokens(const std::string& name,
                                                    const std::string& text) {
  ASSIGN_OR_RETURN(ParsedTokens parsed, Parse(name, text));
  return std::move(parsed.entries);
}

absl::StatusOr<std::vector<TokenEntry>> ReadTokenFile(const std::string& path) {
  ASSIGN_OR_RETURN(const SmallFile file,
                   ReadSmallFile(path, kMaxTokenFileBytes));
  ASSIGN_OR_RETURN(ParsedTokens parsed, Parse(path, file.text));
  if (parsed.plain && file.open_to_all()) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s: wanted a file of tokens that not every user may read (chmod o= "
        "it, or keep sha256 instead), found mode %04o",
        path, file.mode));
  }
  return std::move(parsed.entries);
}

}  // namespace kvasir
