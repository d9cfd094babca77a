#ifndef KVASIR_TESTS_SERVER_STATUS_DETAILS_H_
#define KVASIR_TESTS_SERVER_STATUS_DETAILS_H_

#include <map>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace kvasir {

// What a client finds in an error's details. Fails the test if any kind is
// there twice, or one that this does not know (AIP-193).
struct StatusDetails {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  google::rpc::QuotaFailure quota;
  google::rpc::PreconditionFailure precondition;
  google::rpc::ResourceInfo resource;
  google::rpc::RetryInfo retry;
  google::rpc::RequestInfo request;
  std::map<std::string, int> counts;  // by the kind's name, without its package

  bool has(const std::string& kind) const { return counts.count(kind) > 0; }
};

inline StatusDetails DetailsOf(const grpc::Status& status) {
  google::rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(status.error_details()));
  EXPECT_EQ(wire.code(), status.error_code());
  EXPECT_EQ(wire.message(), status.error_message());
  StatusDetails details;
  for (const auto& any : wire.details()) {
    const bool known =
        any.UnpackTo(&details.info) || any.UnpackTo(&details.bad) ||
        any.UnpackTo(&details.quota) || any.UnpackTo(&details.precondition) ||
        any.UnpackTo(&details.resource) || any.UnpackTo(&details.retry) ||
        any.UnpackTo(&details.request);
    EXPECT_TRUE(known) << any.type_url();
    const std::string kind =
        any.type_url().substr(any.type_url().rfind('.') + 1);
    EXPECT_EQ(++details.counts[kind], 1) << kind;
  }
  return details;
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_STATUS_DETAILS_H_
