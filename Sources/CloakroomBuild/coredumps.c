#include "CloakroomBuild.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int cloakroom_disable_core_dumps(void) {
    const struct rlimit none = {0, 0};
    int limited = setrlimit(RLIMIT_CORE, &none) == 0 ? 0 : errno;
    // Also covers core_pattern programs, which ignore the limit, and prevents other processes of the user from reading
    // the memory.
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno;
    return limited;
}
