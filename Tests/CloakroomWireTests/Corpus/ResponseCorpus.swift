import CloakroomWire

/// Responses, valid and malformed.
enum ResponseCorpus {
    static let all = good + bodyless + malformed

    private static let good: [WireCase] = [
        .reads("RFC 9112 §4: a status line", "HTTP/1.1 204 No Content\r\n\r\n", "1.1 204 (No Content) {}"),
        .reads("RFC 9112 §4: an empty reason", "HTTP/1.1 204 \r\n\r\n", "1.1 204 () {}"),
        .reads("RFC 9112 §4: no reason and no space", "HTTP/1.1 204\r\n\r\n", "1.1 204 () {}"),
        .reads("RFC 9112 §4: a reason beyond ASCII", "HTTP/1.1 204 Leer ü\t!\r\n\r\n", "1.1 204 (Leer ü\t!) {}"),
        .reads("RFC 9112 §2.3: version 1.0", "HTTP/1.0 204 x\r\n\r\n", "1.0 204 (x) {}"),
        .reads(
            "RFC 9110 §15: a class of its own", "HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
            "1.1 999 (x) {Content-Length=0}"),
        .reads(
            "RFC 9112 §6.2: a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "1.1 200 (OK) {Content-Length=2} hi"),
        .reads(
            "RFC 9112 §7.1: chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "1.1 200 (OK) {Transfer-Encoding=chunked} hi"),
        .reads(
            "RFC 9112 §6.3: until the connection is closed", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nhi\r\n",
            "1.1 200 (OK) {A=b} hi\r\n"),
        .reads("RFC 9112 §6.3: until close, with nothing", "HTTP/1.0 200 OK\r\n\r\n", "1.0 200 (OK) {}"),
        .reads(
            "RFC 9110 §15.2: interim responses",
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 100\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
            "1.1 103 (Early Hints) {Link=a}", "1.1 100 () {}", "1.1 204 (x) {}"),
        .reads(
            "RFC 9112 §8: a body that breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
            "1.1 200 (OK) {Content-Length=5} hi …"),
        .reads("RFC 9112 §8: a status line that breaks off", "HTTP/1.1 20", leftover: "HTTP/1.1 20"),
        .reads(
            "RFC 9112 §9.3: bytes after a response", "HTTP/1.1 204 x\r\n\r\nHTTP", "1.1 204 (x) {}", leftover: "HTTP"),
    ]

    private static let bodyless: [WireCase] = [
        .reads(
            "RFC 9112 §6.3: 204 with a length", "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n",
            "1.1 204 (x) {Content-Length=5}"),
        .reads(
            "RFC 9112 §6.3: 304 with a length", "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 y\r\n\r\n",
            "1.1 304 (x) {Content-Length=5}", "1.1 204 (y) {}"),
        .reads(
            "RFC 9112 §6.3: 304 with chunks announced", "HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1.1 304 (x) {Transfer-Encoding=chunked}"),
        .reads(
            "RFC 9112 §6.3: 100 with a length", "HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 y\r\n\r\n",
            "1.1 100 (x) {Content-Length=5}", "1.1 204 (y) {}"),
    ]

    private static let malformed: [WireCase] = [
        line("RFC 9112 §4: a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"),
        line("RFC 9112 §4: a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"),
        line("RFC 9112 §4: a status below 100", "HTTP/1.1 099 OK\r\n\r\n"),
        line("RFC 9112 §4: a signed status", "HTTP/1.1 +20 OK\r\n\r\n"),
        line("RFC 9112 §4: no status", "HTTP/1.1\r\n\r\n"),
        line("RFC 9112 §4: two spaces", "HTTP/1.1  200 OK\r\n\r\n"),
        line("RFC 9112 §4: a tab for a space", "HTTP/1.1\t200 OK\r\n\r\n"),
        line("RFC 9112 §4: a control in the reason", "HTTP/1.1 200 O\u{0}K\r\n\r\n"),
        line("RFC 9112 §4: the name in lower case", "http/1.1 200 OK\r\n\r\n"),
        line("RFC 9112 §4: another protocol", "ICY 200 OK\r\n\r\n"),
        line("RFC 9112 §2.2: an empty line before", "\r\nHTTP/1.1 200 OK\r\n\r\n"),
        line("RFC 9112 §2.3: a version of two digits", "HTTP/1.10 200 OK\r\n\r\n"),
        .rejects("RFC 9112 §2.3: version 2", "HTTP/2.0 200 OK\r\n\r\n", .version),
        .rejects("RFC 9112 §2.2: a bare LF", "HTTP/1.1 200 OK\nA: b\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §2.2: a bare CR", "HTTP/1.1 200 OK\rA: b\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §5.2: a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", .foldedLine),
        .rejects("RFC 9112 §5.1: a space before the colon", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", .fieldName),
        .rejects("RFC 9110 §5.5: NUL in a value", "HTTP/1.1 200 OK\r\nA: \u{0}\r\n\r\n", .fieldValue),
        .rejects(
            "RFC 9112 §6.3: length and coding",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", .lengthAndCoding,
            after: "1.1 200 (OK) {Content-Length=2, Transfer-Encoding=chunked} …"),
        .rejects(
            "RFC 9112 §6.3: two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
            .contentLength, after: "1.1 200 (OK) {Content-Length=2, Content-Length=3} …"),
        .rejects(
            "RFC 9112 §6.3: two lengths where there is no body",
            "HTTP/1.1 304 x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", .contentLength,
            after: "1.1 304 (x) {Content-Length=2, Content-Length=3} …"),
        .rejects(
            "RFC 9112 §6.1: a coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            .transferCoding, after: "1.0 200 (OK) {Transfer-Encoding=chunked} …"),
        .rejects(
            "RFC 9112 §6.1: an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\n", .unknownCoding,
            after: "1.1 200 (OK) {Transfer-Encoding=br} …"),
        .rejects(
            "RFC 9112 §7.1: a bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nz",
            .chunkSize, after: "1.1 200 (OK) {Transfer-Encoding=chunked} hi …"),
    ]

    private static func line(_ name: String, _ text: String) -> WireCase {
        .rejects(name, text, .statusLine)
    }
}
