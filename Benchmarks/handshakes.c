// Makes TLS connections as fast as possible, each with one handshake and one request, and prints counts as JSON.
//
// usage: handshakes PORT SECONDS THREADS full|resumed GROUP MAJOR.MINOR
//
// Built by handshakes.py with the TLS library of the gateway's own build, because the system's may lack post-quantum key
// exchange. Each thread has one connection at a time. In the mode "resumed" each thread makes one full handshake first,
// which is not counted, and offers the newest session afterwards.
#include <CNIOBoringSSL.h>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum { SOURCE_ADDRESSES = 200, TIMEOUT_SECONDS = 5 };

static const char request[] = "GET /videos/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

static int port, seconds, resumes;
static const char *group, *version;
static double deadline;
static atomic_long completed, resumed, failed, nanoseconds;
static atomic_int group_id;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

typedef struct {
    int number;
    unsigned attempts;
    SSL_CTX *context;
    SSL_SESSION *session;
} Client;

// Keeps the newest session. Returning 1 takes ownership.
static int keep_session(SSL *ssl, SSL_SESSION *session) {
    Client *client = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0);
    if (!client || !resumes) return 0;
    SSL_SESSION_free(client->session);
    client->session = session;
    return 1;
}

static int open_socket(Client *client) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (descriptor < 0) return -1;
    struct timeval timeout = {.tv_sec = TIMEOUT_SECONDS};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // Many source addresses, so that ports of closed connections may wait.
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    unsigned address = client->attempts++ % SOURCE_ADDRESSES;
    struct sockaddr_in source = {.sin_family = AF_INET};
    source.sin_addr.s_addr = htonl(0x7f000000u | (unsigned)(1 + client->number) << 8 | (1 + address));
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    server.sin_addr.s_addr = htonl(0x7f000001u);
    if (bind(descriptor, (struct sockaddr *)&source, sizeof source) ||
        connect(descriptor, (struct sockaddr *)&server, sizeof server)) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

// Sends the request and reads the response with its body. Returns whether it is complete, with any status below 500.
static int exchange(SSL *ssl) {
    char response[16384];
    size_t length = 0;
    if (SSL_write(ssl, request, sizeof request - 1) != sizeof request - 1) return 0;
    for (;;) {
        int count = SSL_read(ssl, response + length, (int)(sizeof response - 1 - length));
        if (count <= 0) return 0;
        length += (size_t)count;
        response[length] = 0;
        char *end = strstr(response, "\r\n\r\n");
        if (!end) continue;
        char *field = strcasestr(response, "\r\ncontent-length:");
        size_t body = field && field < end ? strtoul(field + 17, NULL, 10) : 0;
        if (length >= (size_t)(end - response) + 4 + body) return response[9] > '1' && response[9] < '5';
    }
}

static int connection(Client *client, int *is_resumed) {
    int descriptor = open_socket(client), is_complete = 0;
    if (descriptor < 0) return 0;
    SSL *ssl = SSL_new(client->context);
    if (ssl) {
        SSL_set_fd(ssl, descriptor);
        if (client->session) SSL_set_session(ssl, client->session);
        is_complete = SSL_connect(ssl) == 1 && exchange(ssl);
        *is_resumed = SSL_session_reused(ssl);
        if (is_complete) {
            atomic_store(&group_id, SSL_get_group_id(ssl));
            SSL_shutdown(ssl);
        }
        SSL_free(ssl);
    }
    close(descriptor);
    return is_complete;
}

static void *run(void *argument) {
    Client *client = argument;
    int is_resumed;
    if (resumes && !connection(client, &is_resumed)) atomic_fetch_add(&failed, 1);
    while (now() < deadline) {
        is_resumed = 0;
        double start = now();
        if (connection(client, &is_resumed)) {
            atomic_fetch_add(&completed, 1);
            atomic_fetch_add(&resumed, is_resumed ? 1 : 0);
            atomic_fetch_add(&nanoseconds, (long)((now() - start) * 1e9));
        } else {
            atomic_fetch_add(&failed, 1);
            usleep(10000);
        }
    }
    SSL_SESSION_free(client->session);
    SSL_CTX_free(client->context);
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 7) {
        fprintf(stderr, "usage: handshakes PORT SECONDS THREADS full|resumed GROUP 1.2|1.3\n");
        return 2;
    }
    port = atoi(arguments[1]);
    seconds = atoi(arguments[2]);
    int threads = atoi(arguments[3]);
    resumes = strcmp(arguments[4], "resumed") == 0;
    group = arguments[5];
    version = arguments[6];
    if (seconds < 1 || seconds > 600 || threads < 1 || threads > 100) return 2;
    unsigned short number = strcmp(version, "1.2") == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
    static Client clients[100];
    pthread_t handles[100];
    deadline = now() + seconds;
    double start = now();
    for (int index = 0; index < threads; index++) {
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        if (!context || !SSL_CTX_set1_groups_list(context, group)) {
            fprintf(stderr, "the TLS library lacks %s\n", group);
            return 2;
        }
        SSL_CTX_set_min_proto_version(context, number);
        SSL_CTX_set_max_proto_version(context, number);
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT);
        SSL_CTX_sess_set_new_cb(context, keep_session);
        clients[index] = (Client){.number = index, .context = context};
        SSL_CTX_set_ex_data(context, 0, &clients[index]);
        if (pthread_create(&handles[index], NULL, run, &clients[index])) return 2;
    }
    for (int index = 0; index < threads; index++) pthread_join(handles[index], NULL);
    double elapsed = now() - start;
    const char *name = SSL_get_group_name((uint16_t)atomic_load(&group_id));
    printf("{\"handshakes\": %ld, \"resumed\": %ld, \"failed\": %ld, \"seconds\": %.3f, \"group\": \"%s\", "
           "\"mean_ms\": %.3f}\n",
           (long)completed, (long)resumed, (long)failed, elapsed, name ? name : "none",
           completed ? (double)nanoseconds / 1e6 / (double)completed : 0.0);
    return 0;
}
