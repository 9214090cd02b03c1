#ifndef CLOAKROOM_BUILD_H
#define CLOAKROOM_BUILD_H

/// The commit that the binary was built from, as deploy/build.sh found it; "unknown" where nobody said. Swift has no
/// definitions with values, C has.
const char *cloakroom_commit(void);

#endif
