#include "server/tls_files.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"

#include "cache/base/status_macros.h"
#include "server/small_file.h"
#include "server/text.h"

namespace kvasir {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status Fault(std::string_view option, const std::string& path,
                   std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(option), ": ", path, ": ", View(what)));
}

absl::StatusOr<SmallFile> Read(std::string_view option,
                               const std::string& path) {
  absl::StatusOr<SmallFile> file = ReadSmallFile(path, kMaxPemBytes);
  if (file.ok()) return file;
  return absl::Status(
      file.status().code(),
      absl::StrCat(View(option), ": ", file.status().message()));
}

Bio MemoryOf(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(
    std::string_view option, const std::string& path, const std::string& pem) {
  const Bio bio = MemoryOf(pem);
  std::vector<Certificate> certificates;
  while (X509* const next =
             PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  // The end of the file is an error like others to the library.
  const bool ended =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended || certificates.empty()) {
    return Fault(option, path, "wanted certificates in PEM, found other text");
  }
  return certificates;
}

// An encrypted key is none: there is nobody to ask.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Key> ParseKey(std::string_view option, const std::string& path,
                             const std::string& pem) {
  const Bio bio = MemoryOf(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return Fault(option, path,
               "wanted a private key in PEM that is not encrypted");
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

// OK if it is in force.
absl::Status CheckTimes(std::string_view option, const std::string& path,
                        const X509& certificate, absl::Time now) {
  const absl::Time begin = ToTime(X509_get0_notBefore(&certificate));
  const absl::Time end = ToTime(X509_get0_notAfter(&certificate));
  if (end <= now) {
    return Fault(option, path,
                 absl::StrCat("wanted a certificate that is valid, found one "
                              "that expired at ",
                              Day(end)));
  }
  if (begin > now) {
    return Fault(option, path,
                 absl::StrCat("wanted a certificate that is valid, found one "
                              "that is not before ",
                              Day(begin)));
  }
  return absl::OkStatus();
}

// Whether a library for TLS takes them, as gRPC will give them to it: a key
// that is too short, for one, is refused there, and gRPC has no way to say so.
absl::Status CheckUsable(const TlsPaths& paths,
                         const std::vector<Certificate>& chain, EVP_PKEY* key) {
  const std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context(
      SSL_CTX_new(TLS_method()));
  bool taken = context != nullptr &&
               SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1;
  for (size_t i = 1; taken && i < chain.size(); ++i) {
    taken = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  taken = taken && SSL_CTX_use_PrivateKey(context.get(), key) == 1;
  if (taken) return absl::OkStatus();
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  const absl::Status fault =
      Fault("--tls-cert", paths.cert,
            absl::StrCat("wanted certificates that TLS takes, found ",
                         why == nullptr ? "others" : why));
  ERR_clear_error();
  return fault;
}

absl::Status ReadIdentity(const TlsPaths& paths, absl::Time now,
                          TlsFiles& files) {
  ASSIGN_OR_RETURN(SmallFile cert, Read("--tls-cert", paths.cert));
  ASSIGN_OR_RETURN(SmallFile key_file, Read("--tls-key", paths.key));
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   ParseCertificates("--tls-cert", paths.cert, cert.text));
  ASSIGN_OR_RETURN(const Key key,
                   ParseKey("--tls-key", paths.key, key_file.text));
  for (const Certificate& one : chain) {
    RETURN_IF_ERROR(CheckTimes("--tls-cert", paths.cert, *one, now));
    files.expiry =
        std::min(files.expiry, ToTime(X509_get0_notAfter(one.get())));
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return Fault("--tls-key", paths.key,
                 absl::StrCat("wanted the key of the first certificate in ",
                              paths.cert, ", found another one"));
  }
  RETURN_IF_ERROR(CheckUsable(paths, chain, key.get()));
  files.cert = std::move(cert.text);
  files.key = std::move(key_file.text);
  files.key_open_to_all = key_file.open_to_all();
  return absl::OkStatus();
}

absl::Status ReadRoots(const TlsPaths& paths, absl::Time now, TlsFiles& files) {
  constexpr std::string_view kOption = "--tls-client-ca";
  ASSIGN_OR_RETURN(SmallFile roots, Read(kOption, paths.client_ca));
  ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                   ParseCertificates(kOption, paths.client_ca, roots.text));
  absl::Status fault;
  bool any = false;
  for (const Certificate& one : certificates) {
    absl::Status in_force = CheckTimes(kOption, paths.client_ca, *one, now);
    if (!in_force.ok()) {
      fault = std::move(in_force);
      continue;
    }
    any = true;
    files.client_ca_expiry =
        std::min(files.client_ca_expiry, ToTime(X509_get0_notAfter(one.get())));
  }
  if (!any) return fault;
  files.client_ca = std::move(roots.text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths, absl::Time now) {
  TlsFiles files;
  RETURN_IF_ERROR(ReadIdentity(paths, now, files));
  if (!paths.client_ca.empty()) RETURN_IF_ERROR(ReadRoots(paths, now, files));
  return files;
}

}  // namespace kvasir
