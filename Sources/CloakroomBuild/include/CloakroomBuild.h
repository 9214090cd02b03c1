#ifndef CLOAKROOM_BUILD_H
#define CLOAKROOM_BUILD_H

/// The commit that the binary was built from, set by deploy/build.sh; "unknown" if the build did not set it. A C function
/// because Swift has no preprocessor definitions with values.
const char *cloakroom_commit(void);

/// Disables core dumps and access to the process's memory by other processes of its user: sets PR_SET_DUMPABLE to 0 and
/// RLIMIT_CORE to 0. Returns 0, or the errno of the failed call. Swift cannot call prctl because it is variadic.
int cloakroom_disable_core_dumps(void);

/// Sends one datagram to the service manager (sd_notify(3)). `path` is the value of NOTIFY_SOCKET: an absolute path, or `@`
/// and an abstract name. Waits at most 2 seconds. Returns 0, or an errno. In C because the address has a fixed-size array and
/// a length that depends on the name.
int cloakroom_notify(const char *path, const char *message);

#endif
