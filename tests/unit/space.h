/* Free addresses of the process for tests: 128 GiB that no sanitizer keeps for itself. */
#ifndef RIG_TEST_SPACE_H
#define RIG_TEST_SPACE_H

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_UNDER_ASAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define TEST_UNDER_ASAN 1
#endif

/* AddressSanitizer leaves 32 TiB on free, ThreadSanitizer 384 GiB on. */
#ifdef TEST_UNDER_ASAN
#define TEST_SPACE UINT64_C(0x200000000000)
#else
#define TEST_SPACE UINT64_C(0x6000000000)
#endif

#endif
