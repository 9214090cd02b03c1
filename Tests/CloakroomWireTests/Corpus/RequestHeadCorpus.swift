import CloakroomWire

/// Requests without a body, valid and malformed.
enum RequestHeadCorpus {
    static let all = good + lines + fields

    static let good: [WireCase] = [
        .reads("RFC 9112 §2.1: a head", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 1.1 {Host=a}"),
        .reads("RFC 9112 §2.1: a head without fields", "GET / HTTP/1.1\r\n\r\n", "GET / 1.1 {}"),
        .reads("RFC 9112 §2.3: version 1.0", "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 {}"),
        .reads("RFC 9112 §2.3: version 1.2 counts as 1.1", "GET / HTTP/1.2\r\n\r\n", "GET / 1.1 {}"),
        .reads("RFC 9112 §2.3: version 1.9 counts as 1.1", "GET / HTTP/1.9\r\n\r\n", "GET / 1.1 {}"),
        .reads("RFC 9110 §9.1: an unregistered method", "M-SEARCH * HTTP/1.1\r\n\r\n", "M-SEARCH * 1.1 {}"),
        .reads("RFC 9110 §9.1: a method in lower case", "get / HTTP/1.1\r\n\r\n", "get / 1.1 {}"),
        .reads(
            "RFC 9112 §3.2.2: absolute form", "GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/b?c 1.1 {Host=a}"),
        .reads("RFC 9112 §3.2.3: authority form", "CONNECT a:443 HTTP/1.1\r\n\r\n", "CONNECT a:443 1.1 {}"),
        .reads("RFC 9112 §2.2: one empty line before", "\r\nGET / HTTP/1.1\r\n\r\n", "GET / 1.1 {}"),
        .reads("RFC 9112 §2.2: empty lines before", "\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", "GET / 1.1 {}"),
        .reads("RFC 9112 §5.1: no space before the value", "GET / HTTP/1.1\r\nA:b\r\n\r\n", "GET / 1.1 {A=b}"),
        .reads("RFC 9112 §5.1: blanks around", "GET / HTTP/1.1\r\nA: \t b \t \r\n\r\n", "GET / 1.1 {A=b}"),
        .reads("RFC 9110 §5.5: an empty value", "GET / HTTP/1.1\r\nA:\r\nB: \r\n\r\n", "GET / 1.1 {A=, B=}"),
        .reads("RFC 9110 §5.5: blanks within a value", "GET / HTTP/1.1\r\nA: b \t c\r\n\r\n", "GET / 1.1 {A=b \t c}"),
        .reads("RFC 9110 §5.5: a colon in a value", "GET / HTTP/1.1\r\nA: b:c\r\n\r\n", "GET / 1.1 {A=b:c}"),
        .reads("RFC 9110 §5.5: obs-text in a value", "GET / HTTP/1.1\r\nA: ü\r\n\r\n", "GET / 1.1 {A=ü}"),
        .reads(
            "RFC 9110 §5.6.2: all characters of a token", "GET / HTTP/1.1\r\n!#$%&'*+-.^_`|~09azAZ: b\r\n\r\n",
            "GET / 1.1 {!#$%&'*+-.^_`|~09azAZ=b}"),
        .reads("RFC 9110 §5.3: one name twice", "GET / HTTP/1.1\r\nA: b\r\na: c\r\n\r\n", "GET / 1.1 {A=b, a=c}"),
        .reads(
            "RFC 9112 §9.3.2: pipelined requests", "GET /1 HTTP/1.1\r\nA: b\r\n\r\nGET /2 HTTP/1.1\r\n\r\n",
            "GET /1 1.1 {A=b}", "GET /2 1.1 {}"),
        .reads(
            "RFC 9112 §2.2: an empty line between requests",
            "GET /1 HTTP/1.1\r\nA: b\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\n", "GET /1 1.1 {A=b}", "GET /2 1.0 {}"),
        .reads(
            "RFC 9112 §8: a head that breaks off", "GET / HTTP/1.1\r\nA: b\r\n\r",
            leftover: "GET / HTTP/1.1\r\nA: b\r\n\r"),
        .reads("RFC 9112 §8: a request line that breaks off", "\r\nGET / HT", leftover: "GET / HT"),
        .reads("RFC 9112 §2.2: half an empty line", "\r\n\r", leftover: "\r"),
        .reads("RFC 9112 §2.1: nothing", ""),
    ]

    private static let lines: [WireCase] = [
        .rejects("RFC 9112 §3: HTTP/0.9", "GET /\r\n", .requestLine),
        .rejects("RFC 9112 §3: no version", "GET / \r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: no target", "GET  HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: no method", " / HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: two spaces before the version", "GET /  HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a space in the target", "GET /a b HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a tab for a space", "GET\t/ HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a tab after the target", "GET /\tHTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a space after the version", "GET / HTTP/1.1 \r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a method that is not a token", "G(T / HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: a control in the target", "GET /\u{1} HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: DEL in the target", "GET /\u{7f} HTTP/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §3: NUL in the target", "GET /\u{0} HTTP/1.1\r\n\r\n", .requestLine),
        .rejects(
            "RFC 9112 §3: a method without end", String(repeating: "A", count: 33) + " / HTTP/1.1\r\n\r\n", .requestLine
        ),
        .rejects("RFC 9112 §3: a TLS hello", bytes: [0x16, 0x03, 0x01, 0x02, 0x00, 0x01], .requestLine),
        .rejects("RFC 9112 §2.3: the name in lower case", "GET / http/1.1\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §2.3: another protocol", "GET / ICAP/1.0\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §2.3: a version of two digits", "GET / HTTP/1.10\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §2.3: a version without point", "GET / HTTP/11\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §2.3: a version that is not a number", "GET / HTTP/1.x\r\n\r\n", .requestLine),
        .rejects("RFC 9112 §2.3: version 0.9 in the line", "GET / HTTP/0.9\r\n\r\n", .version),
        .rejects("RFC 9112 §2.3: version 2.0 in the line", "GET / HTTP/2.0\r\n\r\n", .version),
        .rejects("RFC 9113 §3.4: the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .version),
        .rejects("RFC 9112 §2.2: a bare LF after the request line", "GET / HTTP/1.1\nA: b\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §2.2: a bare CR after the request line", "GET / HTTP/1.1\rA: b\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §2.2: two CRs after the request line", "GET / HTTP/1.1\r\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §2.2: a bare LF before the request line", "\nGET / HTTP/1.1\r\n\r\n", .lineEnd),
        .rejects("RFC 9112 §2.2: a bare CR before the request line", "\rGET / HTTP/1.1\r\n\r\n", .lineEnd),
    ]

    private static let fields: [WireCase] = [
        field("RFC 9112 §2.2: a bare LF after a field", "A: b\nC: d\r\n\r\n", .lineEnd),
        field("RFC 9112 §2.2: a bare CR within a value", "A: b\rC: d\r\n\r\n", .lineEnd),
        field("RFC 9112 §2.2: a bare CR after a value", "A: b\r\r\n\r\n", .lineEnd),
        field("RFC 9112 §2.2: a bare LF for the empty line", "A: b\r\n\n", .lineEnd),
        field("RFC 9112 §2.2: a bare CR for the empty line", "A: b\r\n\rX", .lineEnd),
        field("RFC 9112 §2.2: a bare LF in a name", "A\n: b\r\n\r\n", .lineEnd),
        field("RFC 9112 §5.2: a folded line", "A: b\r\n c\r\n\r\n", .foldedLine),
        field("RFC 9112 §5.2: a line folded with a tab", "A: b\r\n\tc\r\n\r\n", .foldedLine),
        field("RFC 9112 §2.2: a space before the first field", " A: b\r\n\r\n", .foldedLine),
        field("RFC 9112 §5.1: a space before the colon", "A : b\r\n\r\n", .fieldName),
        field("RFC 9112 §5.1: a tab before the colon", "A\t: b\r\n\r\n", .fieldName),
        field("RFC 9112 §5.1: a space within the name", "Transfer Encoding: chunked\r\n\r\n", .fieldName),
        field("RFC 9112 §5: no colon", "A\r\n\r\n", .fieldName),
        field("RFC 9110 §5.1: an empty name", ": b\r\n\r\n", .fieldName),
        field("RFC 9110 §5.1: a name that is not a token", "A(b): c\r\n\r\n", .fieldName),
        field("RFC 9110 §5.1: a name with a letter beyond ASCII", "Ä: c\r\n\r\n", .fieldName),
        field("RFC 9110 §5.1: a control in the name", "A\u{b}: c\r\n\r\n", .fieldName),
        field("RFC 9110 §5.1: NUL in the name", "A\u{0}: c\r\n\r\n", .fieldName),
        field("RFC 9110 §5.5, rule 26: NUL in a value", "A: b\u{0}c\r\n\r\n", .fieldValue),
        field("RFC 9110 §5.5: a control in a value", "A: b\u{b}c\r\n\r\n", .fieldValue),
        field("RFC 9110 §5.5: a control before a value", "A:\u{c}b\r\n\r\n", .fieldValue),
        field("RFC 9110 §5.5: DEL in a value", "A: b\u{7f}\r\n\r\n", .fieldValue),
    ]

    private static func field(_ name: String, _ lines: String, _ error: WireError) -> WireCase {
        .rejects(name, "GET / HTTP/1.1\r\n" + lines, error)
    }
}
