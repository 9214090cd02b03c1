// What Swift does not see of the C library, because it is declared for _GNU_SOURCE only.
#include <sys/uio.h>

// Reads at an offset. With CLINUX_NO_WAIT only bytes that are in memory: otherwise it fails with EAGAIN, or reads less. A file
// system that does not know this fails with EOPNOTSUPP.
extern ssize_t preadv2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags);

// RWF_NOWAIT of the kernel.
enum { CLINUX_NO_WAIT = 8 };
