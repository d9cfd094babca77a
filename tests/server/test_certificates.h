#ifndef KVASIR_TESTS_SERVER_TEST_CERTIFICATES_H_
#define KVASIR_TESTS_SERVER_TEST_CERTIFICATES_H_

#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/rsa.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace kvasir {

// A certificate with its key, made for a test: for "localhost" and 127.0.0.1,
// signed by another one or by itself.
class TestCertificate {
 public:
  struct Options {
    std::string name = "localhost";
    absl::Duration begins = -absl::Hours(1);  // from now
    absl::Duration ends = absl::Hours(24 * 365);
    const TestCertificate* issuer = nullptr;  // itself
    unsigned rsa_bits = 0;                    // of its key; 0: a P-256 one
  };

  explicit TestCertificate(const Options& options)
      : key_(options.rsa_bits > 0 ? EVP_RSA_gen(options.rsa_bits)
                                  : EVP_EC_gen("P-256"),
             EVP_PKEY_free),
        certificate_(X509_new(), X509_free) {
    X509* const x = certificate_.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(x),
                    absl::ToInt64Seconds(options.begins));
    X509_gmtime_adj(X509_getm_notAfter(x), absl::ToInt64Seconds(options.ends));
    X509_set_pubkey(x, key_.get());
    X509_NAME* const name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(
        name, "CN", MBSTRING_ASC,
        reinterpret_cast<const unsigned char*>(options.name.c_str()), -1, -1,
        0);
    const bool own = options.issuer == nullptr;
    X509* const issuer = own ? x : options.issuer->certificate_.get();
    X509_set_issuer_name(x, X509_get_subject_name(issuer));
    Extend(NID_basic_constraints, own ? "critical,CA:TRUE" : "CA:FALSE");
    Extend(NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    EXPECT_GT(X509_sign(x, own ? key_.get() : options.issuer->key_.get(),
                        EVP_sha256()),
              0);
  }

  std::string pem() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate_.get());
    return Drain(bio);
  }
  std::string key_pem() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key_.get(), nullptr, nullptr, 0, nullptr,
                             nullptr);
    return Drain(bio);
  }
  std::string encrypted_key_pem() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PKCS8PrivateKey(bio, key_.get(), EVP_aes_128_cbc(), "secret",
                                  6, nullptr, nullptr);
    return Drain(bio);
  }

 private:
  static std::string Drain(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }

  void Extend(int nid, const char* value) {
    X509_EXTENSION* const extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  static inline long serial_ = 0;
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> certificate_;
};

// Puts a text where a file was, in one step, as tools that rotate secrets do.
inline void ReplaceFile(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream(fresh) << text;
  EXPECT_EQ(rename(fresh.c_str(), path.c_str()), 0);
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_TEST_CERTIFICATES_H_
