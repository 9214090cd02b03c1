import CloakroomCore
import NIOCore

/// Messages that several benchmarks use.
enum Samples {
    /// A request of a browser's script: 17 fields, 900 bytes.
    static func browserRequest(cookie: String = "sid=0") -> String {
        """
        GET /videos/417515716 HTTP/1.1\r
        Host: www.example.com\r
        Connection: keep-alive\r
        sec-ch-ua-platform: "Linux"\r
        User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36\r
        Accept: application/json, text/plain, */*\r
        sec-ch-ua: "Not)A;Brand";v="8", "Chromium";v="138", "Google Chrome";v="138"\r
        X-Requested-With: XMLHttpRequest\r
        sec-ch-ua-mobile: ?0\r
        Sec-Fetch-Site: same-origin\r
        Sec-Fetch-Mode: cors\r
        Sec-Fetch-Dest: empty\r
        Referer: https://www.example.com/series/12?season=3\r
        Accept-Encoding: gzip, deflate, br, zstd\r
        Accept-Language: en-GB,en;q=0.9,de;q=0.8\r
        Cache-Control: no-cache\r
        Pragma: no-cache\r
        Cookie: theme=dark; \(cookie)\r
        \r

        """
    }

    /// A request of a simple client: 4 fields.
    static let smallRequest = """
        GET /videos/1 HTTP/1.1\r
        Host: localhost:8080\r
        User-Agent: h2load nghttp2/1.52.0\r
        Accept: */*\r
        Cookie: theme=dark; cloakroom=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r
        \r

        """

    /// The response of an upstream.
    static let response = """
        HTTP/1.1 200 OK\r
        Server: nginx/1.22.1\r
        Date: Sun, 22 Nov 2026 04:32:02 GMT\r
        Content-Type: application/json\r
        Content-Length: 650\r
        Connection: keep-alive\r
        X-Request-Id: 0af7651916cd43dd8448eb211c80319c\r
        ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"\r
        Cache-Control: private, max-age=0\r
        Vary: Accept-Encoding\r
        \r

        """

    /// The time of all requests.
    static let now = SessionTime(seconds: 1_795_000_000)
}
