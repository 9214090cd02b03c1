#include "CloakroomBuild.h"

const char *cloakroom_commit(void) { return CLOAKROOM_COMMIT; }
