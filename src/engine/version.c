#include "firn.h"

const char *firn_version(void)
{
    return FIRN_VERSION;
}

const char *firn_commit(void)
{
    return FIRN_COMMIT;
}
