// An open-loop load generator: requests are due at a constant rate, whatever the responses do.
//
// The latency of a request begins when it was due, not when it was sent, so that a request that has to wait for a free
// connection counts the time it waited (no coordinated omission). One thread; HTTP/1.1 with one request per connection,
// or HTTP/2 with several streams per connection; clear text or TLS without verification. Prints one JSON object.
//
// cc -O2 -o open_loop open_loop.c -lssl -lcrypto -lnghttp2
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, MAX_STREAMS = 256, MAX_HEADERS = 40 };

struct connection {
    int fd;
    int active;              // requests without a complete response
    SSL *tls;                // NULL in clear text
    nghttp2_session *http2;  // NULL for HTTP/1.1
    int64_t due;             // HTTP/1.1: when the request was due
    size_t received;         // HTTP/1.1: bytes in the buffer
    size_t body_left;        // HTTP/1.1: bytes of the body that have not arrived; 0 in a head
    bool in_body;
    int status;
    char buffer[BUFFER];
};

static struct {
    const char *protocol, *path, *authority;
    int port, connections, streams;
    double rate, seconds, warm_up;
    const char *headers[MAX_HEADERS];
    int header_count;
} options = {.protocol = "h1", .path = "/", .connections = 1, .streams = 1, .rate = 1, .seconds = 1};

static struct connection *connections;
static char request[BUFFER];
static size_t request_size;
static nghttp2_nv fields[MAX_HEADERS + 4];
static size_t field_count;
static int64_t measured_from;  // requests that were due before this time are warm-up
static uint32_t *latencies, *delays;
static size_t latency_count, delay_count, unexpected, failed;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("open_loop: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static uint32_t clamped(int64_t value) { return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value; }

// The end of a request that was due at the given time.
static void completed(int64_t due, int status) {
    if (due < measured_from) return;
    if (status != 200) unexpected++;
    latencies[latency_count++] = clamped(now() - due);
}

// MARK: Bytes

static ssize_t receive(struct connection *each, void *bytes, size_t count) {
    if (!each->tls) return read(each->fd, bytes, count);
    int result = SSL_read(each->tls, bytes, (int)count);
    if (result > 0) return result;
    if (SSL_get_error(each->tls, result) == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

// Requests are small, and the socket's buffer has room for all that are in flight: a partial write is an error.
static void send_all(struct connection *each, const void *bytes, size_t count) {
    ssize_t result = each->tls ? SSL_write(each->tls, bytes, (int)count) : write(each->fd, bytes, count);
    if (result != (ssize_t)count) fail("a request could not be sent: %s", strerror(errno));
}

// MARK: HTTP/1.1

// Reads a head. Returns its length, or 0 if it is incomplete.
static size_t read_head(struct connection *each) {
    each->buffer[each->received] = 0;
    char *end = strstr(each->buffer, "\r\n\r\n");
    if (!end) return 0;
    if (strncmp(each->buffer, "HTTP/1.1 ", 9) != 0) fail("not a response: %.40s", each->buffer);
    each->status = atoi(each->buffer + 9);
    char *length = strcasestr(each->buffer, "\r\ncontent-length:");
    if (!length || length > end) fail("a response without Content-Length is not supported:\n%s", each->buffer);
    each->body_left = strtoul(length + 17, NULL, 10);
    each->in_body = true;
    return (size_t)(end - each->buffer) + 4;
}

static void receive_http1(struct connection *each) {
    ssize_t count = receive(each, each->buffer + each->received, BUFFER - 1 - each->received);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) fail("a connection was closed");
    each->received += (size_t)count;
    size_t head = each->in_body ? 0 : read_head(each);
    if (!each->in_body) return;
    size_t body = each->received - head;
    each->received = 0;
    if (body > each->body_left) fail("more bytes than Content-Length");
    each->body_left -= body;
    if (each->body_left) return;
    each->in_body = false;
    each->active = 0;
    completed(each->due, each->status);
}

static void prepare_http1(void) {
    int count = snprintf(request, BUFFER, "GET %s HTTP/1.1\r\nHost: %s\r\n", options.path, options.authority);
    for (int i = 0; i < options.header_count; i++) {
        count += snprintf(request + count, BUFFER - (size_t)count, "%s\r\n", options.headers[i]);
    }
    count += snprintf(request + count, BUFFER - (size_t)count, "\r\n");
    request_size = (size_t)count;
}

// MARK: HTTP/2

struct stream {
    int64_t due;
    int status;
};

static void add_field(const char *name, size_t name_size, const char *value) {
    char *lower = strndup(name, name_size);
    for (char *c = lower; *c; c++) {
        if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
    }
    fields[field_count++] = (nghttp2_nv){(uint8_t *)lower, (uint8_t *)strdup(value), name_size, strlen(value),
                                         NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static void prepare_http2(void) {
    add_field(":method", 7, "GET");
    add_field(":scheme", 7, "https");
    add_field(":authority", 10, options.authority);
    add_field(":path", 5, options.path);
    for (int i = 0; i < options.header_count; i++) {
        const char *colon = strchr(options.headers[i], ':');
        if (!colon) fail("not a header: %s", options.headers[i]);
        const char *value = colon + 1;
        while (*value == ' ') value++;
        add_field(options.headers[i], (size_t)(colon - options.headers[i]), value);
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *context) {
    (void)flags, (void)context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream && name_size == 7 && !memcmp(name, ":status", 7) && value_size == 3) {
        stream->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0';
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *context) {
    struct connection *each = context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (!stream) return 0;
    each->active--;
    completed(stream->due, error ? 0 : stream->status);
    free(stream);
    return 0;
}

static void flush_http2(struct connection *each) {
    const uint8_t *bytes;
    ssize_t count;
    while ((count = nghttp2_session_mem_send(each->http2, &bytes)) > 0) send_all(each, bytes, (size_t)count);
    if (count < 0) fail("HTTP/2: %s", nghttp2_strerror((int)count));
}

static void receive_http2(struct connection *each) {
    ssize_t count;
    while ((count = receive(each, each->buffer, BUFFER)) > 0) {
        ssize_t read = nghttp2_session_mem_recv(each->http2, (uint8_t *)each->buffer, (size_t)count);
        if (read < 0) fail("HTTP/2: %s", nghttp2_strerror((int)read));
    }
    if (count == 0) fail("a connection was closed");
    flush_http2(each);
}

static void start_http2(struct connection *each) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_client_new(&each->http2, callbacks, each);
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}};
    nghttp2_submit_settings(each->http2, NGHTTP2_FLAG_NONE, settings, 2);
    nghttp2_session_set_local_window_size(each->http2, NGHTTP2_FLAG_NONE, 0, 16 << 20);
    flush_http2(each);
}

// MARK: Load

static void connect_to_server(struct connection *each, SSL_CTX *context) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    each->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(each->fd, (struct sockaddr *)&address, sizeof address)) fail("connect: %s", strerror(errno));
    int on = 1;
    setsockopt(each->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (context) {
        each->tls = SSL_new(context);
        SSL_set_fd(each->tls, each->fd);
        SSL_set_tlsext_host_name(each->tls, "localhost");
        if (SSL_connect(each->tls) != 1) fail("the TLS handshake failed");
        const unsigned char *protocol;
        unsigned size;
        SSL_get0_alpn_selected(each->tls, &protocol, &size);
        bool is_http2 = size == 2 && !memcmp(protocol, "h2", 2);
        if (is_http2 != !strcmp(options.protocol, "h2")) fail("the server selected another protocol");
    }
    fcntl(each->fd, F_SETFL, O_NONBLOCK);
    if (!strcmp(options.protocol, "h2")) start_http2(each);
}

static void send_request(struct connection *each, int64_t due) {
    each->active++;
    if (!each->http2) {
        each->due = due;
        send_all(each, request, request_size);
        return;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    stream->due = due;
    if (nghttp2_submit_request(each->http2, NULL, fields, field_count, NULL, stream) < 0) fail("submit_request");
    flush_http2(each);
}

static void run(void) {
    int poll = epoll_create1(0);
    for (int i = 0; i < options.connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, connections[i].fd, &event);
    }
    prctl(PR_SET_TIMERSLACK, 1);
    double interval = 1e9 / options.rate;
    int64_t start = now() + 10000000;
    measured_from = start + (int64_t)(options.warm_up * 1e9);
    int64_t end = measured_from + (int64_t)(options.seconds * 1e9);
    int64_t seen = 0, sent = 0, total = (int64_t)((double)(end - start) / interval);
    int turn = 0;
    size_t in_flight = 0;
    while (sent < total || in_flight) {
        int64_t time = now();
        if (time > end + 5000000000LL) break;
        // Requests that became due since the last time, and how late that was noticed.
        for (; seen < total; seen++) {
            int64_t due = start + (int64_t)((double)seen * interval);
            if (due > time) break;
            if (due >= measured_from) delays[delay_count++] = clamped(time - due);
        }
        for (int tried = 0; sent < seen && tried < options.connections;) {
            struct connection *each = &connections[turn];
            turn = (turn + 1) % options.connections;
            if (each->active >= options.streams) {
                tried++;
                continue;
            }
            tried = 0;
            send_request(each, start + (int64_t)((double)sent++ * interval));
        }
        int64_t wait = 100000000;
        if (seen < total) {
            wait = start + (int64_t)((double)seen * interval) - now();
            if (wait < 0) wait = 0;
        }
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        struct epoll_event events[64];
        int count = epoll_pwait2(poll, events, 64, &timeout, NULL);
        for (int i = 0; i < count; i++) {
            struct connection *each = events[i].data.ptr;
            if (each->http2) {
                receive_http2(each);
            } else {
                receive_http1(each);
            }
        }
        in_flight = 0;
        if (sent == total) {
            for (int i = 0; i < options.connections; i++) in_flight += (size_t)connections[i].active;
        }
    }
    failed = delay_count - latency_count;
}

// MARK: Result

static int ascending(const void *left, const void *right) {
    uint32_t one = *(const uint32_t *)left, other = *(const uint32_t *)right;
    return (one > other) - (one < other);
}

// The smallest value that this share of all values does not exceed, in microseconds.
static double percentile(const uint32_t *sorted, size_t count, double share) {
    if (!count) return 0;
    size_t index = (size_t)(share * (double)count);
    return sorted[index < count ? index : count - 1] / 1e3;
}

static void print_result(void) {
    qsort(latencies, latency_count, sizeof *latencies, ascending);
    qsort(delays, delay_count, sizeof *delays, ascending);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\": %zu, \"unexpected\": %zu, \"unfinished\": %zu, ", latency_count, unexpected, failed);
    printf("\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f, ", percentile(latencies, latency_count, 0.5),
           percentile(latencies, latency_count, 0.99), percentile(latencies, latency_count, 0.999),
           percentile(latencies, latency_count, 1));
    printf("\"delay_p50\": %.1f, \"delay_p99\": %.1f, \"cpu\": %.3f}\n", percentile(delays, delay_count, 0.5),
           percentile(delays, delay_count, 0.99), cpu);
}

static void parse(int count, char **words) {
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--protocol")) options.protocol = value;
        else if (!strcmp(name, "--port")) options.port = atoi(value);
        else if (!strcmp(name, "--authority")) options.authority = value;
        else if (!strcmp(name, "--path")) options.path = value;
        else if (!strcmp(name, "--connections")) options.connections = atoi(value);
        else if (!strcmp(name, "--streams")) options.streams = atoi(value);
        else if (!strcmp(name, "--rate")) options.rate = atof(value);
        else if (!strcmp(name, "--seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "--warm-up")) options.warm_up = atof(value);
        else if (!strcmp(name, "--header") && options.header_count < MAX_HEADERS) {
            options.headers[options.header_count++] = value;
        } else fail("unknown option %s", name);
    }
    if (!options.port || !options.authority || options.rate <= 0 || options.connections < 1) {
        fail("--protocol h1|h1tls|h2 --port N --authority HOST --path P --connections N --streams N --rate N "
             "--seconds N --warm-up N --header 'NAME: VALUE' ...");
    }
}

int main(int count, char **words) {
    parse(count, words);
    bool is_http2 = !strcmp(options.protocol, "h2");
    SSL_CTX *context = NULL;
    if (strcmp(options.protocol, "h1")) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_alpn_protos(context, (const unsigned char *)(is_http2 ? "\x02h2" : "\x08http/1.1"),
                                is_http2 ? 3 : 9);
        SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
    }
    if (is_http2) prepare_http2();
    else prepare_http1();
    if (!is_http2) options.streams = 1;
    size_t capacity = (size_t)(options.rate * (options.seconds + 1)) + 16;
    latencies = calloc(capacity, sizeof *latencies);
    delays = calloc(capacity, sizeof *delays);
    connections = calloc((size_t)options.connections, sizeof *connections);
    for (int i = 0; i < options.connections; i++) connect_to_server(&connections[i], context);
    run();
    print_result();
    return 0;
}
