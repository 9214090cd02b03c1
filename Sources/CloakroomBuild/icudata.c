#include "CloakroomBuild.h"

// The part of ICU's data that Foundation needs here, instead of all of it: deploy/icu-data.py writes it, deploy/build.sh sets
// the two definitions. The linker takes this definition and does not load the archive member with the complete data.
//
// Assembly, because a C array of this size takes the compiler minutes. Without the definitions, for example in debug builds,
// the complete data is linked.
#if defined(CLOAKROOM_ICU_DATA) && defined(CLOAKROOM_ICU_SYMBOL)
__asm__(".section .rodata." CLOAKROOM_ICU_SYMBOL ",\"a\"\n"
        ".balign 16\n"
        ".globl " CLOAKROOM_ICU_SYMBOL "\n"
        ".type " CLOAKROOM_ICU_SYMBOL ", %object\n" CLOAKROOM_ICU_SYMBOL ":\n"
        ".incbin \"" CLOAKROOM_ICU_DATA "\"\n"
        ".size " CLOAKROOM_ICU_SYMBOL ", . - " CLOAKROOM_ICU_SYMBOL "\n"
        ".text\n");
#endif
