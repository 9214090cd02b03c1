/// Tokens with a meaning in HTTP/1.1 messages.
enum FuzzDictionary {
    static let all = [
        "\r\n", "\r", "\n", "\r\n\r\n", ":", " ", "\t", ",", ";", "=", "\"", "\u{0}", "\u{7f}", "HTTP/1.1", "HTTP/1.0",
        "Content-Length: ", "Transfer-Encoding: chunked\r\n", "chunked", "identity", "gzip, ", "Connection: ", "close",
        "keep-alive", "Upgrade: websocket\r\n", "TE: trailers\r\n", "Trailer: ", "Expect: 100-continue\r\n",
        "0\r\n\r\n",
        "5\r\nhello\r\n", "0\r\nA: b\r\n\r\n", "7fffffffffffffff", "ffffffffffffffff", "18446744073709551616",
        "X-API-TOKEN",
        "Authorization", "x_forwarded_for", "Max-Forwards: 0\r\n", "X-Client-Cert-Subject", "traceparent",
    ]
}
