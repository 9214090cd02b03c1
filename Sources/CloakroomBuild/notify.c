#include "CloakroomBuild.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int cloakroom_notify(const char *path, const char *message) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || length < 2) return EINVAL;
    // An abstract name is not terminated, so it may use all bytes.
    if (length > sizeof(address.sun_path) - (path[0] == '/' ? 1 : 0)) return ENAMETOOLONG;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = '\0';
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return errno;
    // Blocks while the queue of the service manager is full, but not forever.
    const struct timeval limit = {.tv_sec = 2};
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ssize_t sent;
    do {
        sent = sendto(
            descriptor, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&address,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    } while (sent < 0 && errno == EINTR);
    int error = sent < 0 ? errno : 0;
    close(descriptor);
    return error;
}
