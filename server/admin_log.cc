#include "server/admin_log.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/text_format.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/log.h"
#include "server/status_reason.h"
#include "server/text.h"

namespace kvasir {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr AdminOperation kOperations[] = {
    {"flush", "kvasir.v1.CacheAdmin/FlushCache"},
    {"resize", "kvasir.v1.CacheAdmin/ResizeCache"},
    {"warm", "kvasir.v1.CacheAdmin/WarmCache"},
    {"pin", "kvasir.v1.CacheAdmin/PinPrefix"},
    {"unpin", "kvasir.v1.CacheAdmin/UnpinPrefix"},
    {"evict", "kvasir.v1.CacheAdmin/EvictPrefixes"},
    {"create_version", "kvasir.v1.CacheAdmin/CreateCacheVersion"},
    {"activate_version", "kvasir.v1.CacheAdmin/ActivateCacheVersion"},
    {"rollback_version", "kvasir.v1.CacheAdmin/RollbackCacheVersion"},
    {"delete_version", "kvasir.v1.CacheAdmin/DeleteCacheVersion"},
};

// Whether `field` tells a tenant's salt, or may: a flush without its scope may
// have been meant for one.
bool IsSalt(const Message& message, const FieldDescriptor* field) {
  if (field->name() == "salt") return true;
  const auto* flush = dynamic_cast<const v1::FlushCacheRequest*>(&message);
  return flush != nullptr && flush->scope() != v1::FLUSH_SCOPE_MODEL &&
         flush->scope() != v1::FLUSH_SCOPE_VERSION && field->name() == "value";
}

// One value as protobuf writes it for people; texts without their quotes.
std::string ValueOf(const Message& message, const FieldDescriptor* field,
                    int index) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && index < 0) {
    return message.GetReflection()->GetString(message, field);
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index,
                                                        &text);
  return text;
}

void AddChanges(const Message& message, const std::string& prefix,
                std::string& out) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = prefix + field->name();
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (IsSalt(message, field)) {
      absl::StrAppend(&out, " ", name, "=[salt]");
    } else if (field->is_repeated()) {
      const int count = reflection.FieldSize(message, field);
      if (nested || count > 1) {
        absl::StrAppend(&out, " ", name, "_count=", count);
      } else {
        absl::StrAppend(&out, " ", name, "=", ValueOf(message, field, 0));
      }
    } else if (nested) {
      const Message& inner = reflection.GetMessage(message, field);
      if (const auto* span =
              dynamic_cast<const google::protobuf::Duration*>(&inner)) {
        absl::StrAppend(&out, " ", name, "=", span->seconds(), "s");
      } else {
        AddChanges(inner, name + ".", out);
      }
    } else {
      absl::StrAppend(&out, " ", name, "=", ValueOf(message, field, -1));
    }
  }
}

}  // namespace

absl::Span<const AdminOperation> AdminOperations() { return kOperations; }

const char* AdminOperationOf(std::string_view method) {
  for (const AdminOperation& operation : kOperations) {
    if (method == operation.method) return operation.op;
  }
  return nullptr;
}

std::string ChangeIn(const Message& request) {
  std::string changes;
  AddChanges(request, "", changes);
  if (!changes.empty()) changes.erase(0, 1);
  if (changes.size() > kMaxChangeBytes) {
    changes.resize(kMaxChangeBytes);
    changes += "...";
  }
  return changes;
}

void LogAdminCall(std::string_view method, const AdminNote& note,
                  const absl::Status& status) {
  const char* op = AdminOperationOf(method);
  if (op == nullptr) return;
  std::vector<LogField> fields = {
      {"op", op},
      {"who", note.who},
      {"what", note.what},
      {"code", CodeName(static_cast<int>(status.code()))}};
  if (!status.ok()) {
    fields.emplace_back("reason", ReasonOf(status));
    fields.emplace_back("error", std::string(status.message()));
  }
  Log(absl::IsInternal(status) ? LogLevel::kWarning : LogLevel::kInfo,
      "administrative call ended", fields);
}

}  // namespace kvasir
