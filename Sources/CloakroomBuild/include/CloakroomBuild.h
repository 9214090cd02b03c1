#ifndef CLOAKROOM_BUILD_H
#define CLOAKROOM_BUILD_H

/// The commit that the binary was built from, as deploy/build.sh found it; "unknown" where nobody said. Swift has no
/// definitions with values, C has.
const char *cloakroom_commit(void);

/// Makes sure that the process leaves no core dump, and that no other process of its user can read its memory: sets
/// PR_SET_DUMPABLE to 0 and RLIMIT_CORE to 0. Returns 0, or the errno of what failed. Swift cannot call prctl, which takes a
/// variable number of arguments.
int cloakroom_disable_core_dumps(void);

#endif
