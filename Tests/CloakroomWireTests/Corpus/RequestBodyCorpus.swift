import CloakroomWire

/// Requests with bodies, valid and malformed.
enum RequestBodyCorpus {
    static let all = lengths + codings + chunks + trailers

    private static let lengths: [WireCase] = [
        post("RFC 9112 §6.2: a length", "Content-Length: 5", "hello", "{Content-Length=5} hello"),
        post("RFC 9112 §6.2: a length of 0", "Content-Length: 0", "", "{Content-Length=0}"),
        post("RFC 9112 §6.2: leading zeros", "Content-Length: 0005", "hello", "{Content-Length=0005} hello"),
        post("RFC 9112 §6.3: neither length nor coding", "A: b", "", "{A=b}"),
        post("RFC 9112 §8: a body that breaks off", "Content-Length: 9", "hello", "{Content-Length=9} hello …"),
        .reads(
            "RFC 9112 §6.2: bytes after the length are the next request",
            "PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /2 HTTP/1.1\r\n\r\nGE",
            "PUT / 1.1 {Content-Length=2} hi", "GET /2 1.1 {}", leftover: "GE"),
        .reads(
            "RFC 9112 §6.3: a GET with a body", "GET / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi",
            "GET / 1.0 {Content-Length=2} hi"),
        bad("RFC 9112 §6.3: two lengths that differ", "Content-Length: 5\r\nContent-Length: 6", .contentLength),
        bad("RFC 9112 §6.3: one length twice", "Content-Length: 5\r\nContent-Length: 5", .contentLength),
        bad("RFC 9112 §6.3: a list of lengths", "Content-Length: 5, 5", .contentLength),
        bad("RFC 9112 §6.3: a signed length", "Content-Length: +5", .contentLength),
        bad("RFC 9112 §6.3: a negative length", "Content-Length: -5", .contentLength),
        bad("RFC 9112 §6.3: a hexadecimal length", "Content-Length: 0x5", .contentLength),
        bad("RFC 9112 §6.3: a length with a fraction", "Content-Length: 5.0", .contentLength),
        bad("RFC 9112 §6.3: a length with a space in it", "Content-Length: 5 0", .contentLength),
        bad("RFC 9112 §6.3: a length with a semicolon", "Content-Length: 5;", .contentLength),
        bad("RFC 9112 §6.3: an empty length", "Content-Length:", .contentLength),
        bad("RFC 9112 §6.3: a length in other digits", "Content-Length: ٥", .contentLength),
        bad("RFC 9112 §6.3: a length beyond 63 bits", "Content-Length: 9223372036854775808", .contentLength),
        bad("RFC 9112 §6.3: a length beyond 64 bits", "Content-Length: 18446744073709551621", .contentLength),
    ]

    private static let codings: [WireCase] = [
        chunked("RFC 9112 §7: chunked, in any case", "5\r\nhello\r\n0\r\n\r\n", " hello", coding: "cHunKed"),
        bad(
            "RFC 9112 §6.1: length, then coding", "Content-Length: 5\r\nTransfer-Encoding: chunked", .lengthAndCoding),
        bad(
            "RFC 9112 §6.1: coding, then length", "Transfer-Encoding: chunked\r\nContent-Length: 5", .lengthAndCoding),
        bad(
            "RFC 9112 §6.1: a coding and a length of 0", "Transfer-Encoding: chunked\r\nContent-Length: 0",
            .lengthAndCoding),
        .rejects(
            "RFC 9112 §6.1: a coding in HTTP/1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", .transferCoding,
            after: post("{Transfer-Encoding=chunked} …", minor: 0)),
        bad("RFC 9112 §6.1: chunked twice", "Transfer-Encoding: chunked, chunked", .transferCoding),
        bad(
            "RFC 9112 §6.1: chunked in two fields", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            .transferCoding),
        bad(
            "RFC 9112 §6.1: chunked, then identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            .transferCoding),
        bad("RFC 9112 §6.3: chunked not last", "Transfer-Encoding: chunked, gzip", .transferCoding),
        bad("RFC 9112 §6.1: an empty coding", "Transfer-Encoding:", .transferCoding),
        bad("RFC 9112 §6.1: an empty list member", "Transfer-Encoding: ,chunked", .transferCoding),
        bad("RFC 9112 §6.1: a coding that is not a token", "Transfer-Encoding: chunk(ed)", .transferCoding),
        bad("RFC 9112 §6.1: chunked with a parameter", "Transfer-Encoding: chunked;a=b", .transferCoding),
        bad("RFC 9112 §6.1: a coding in quotes", "Transfer-Encoding: \"chunked\"", .transferCoding),
        bad("RFC 9112 §6.1: an unknown coding", "Transfer-Encoding: gzip", .unknownCoding),
        bad("RFC 9112 §6.1: an unknown coding before chunked", "Transfer-Encoding: gzip, chunked", .unknownCoding),
        bad("RFC 9112 §6.1: a coding similar to chunked", "Transfer-Encoding: xchunked", .unknownCoding),
        bad("RFC 9112 §7: identity was removed", "Transfer-Encoding: identity", .unknownCoding),
    ]

    private static let chunks: [WireCase] = [
        chunked("RFC 9112 §7.1: chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", " abcde"),
        chunked("RFC 9112 §7.1: no chunk", "0\r\n\r\n", ""),
        chunked(
            "RFC 9112 §7.1: sizes in both cases", "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
            " 01234567890123456789a"),
        chunked("RFC 9112 §7.1: leading zeros in a size", "0003\r\nabc\r\n0000\r\n\r\n", " abc"),
        chunked("RFC 9112 §7.1: 16 digits", "0000000000000003\r\nabc\r\n0\r\n\r\n", " abc"),
        chunked("RFC 9112 §7.1.1: extensions", "3;a=b;c=\"d e\"\r\nabc\r\n0;f\r\n\r\n", " abc"),
        chunked(
            "RFC 9112 §7.1.1: quoted values", "3;a=\"\\\"\\\\;\t=\";b=\"\";c\r\nabc\r\n0;d=\"\u{e9}\"\r\n\r\n", " abc"),
        chunked("RFC 9112 §8: a chunk that breaks off", "3\r\nab", " ab …"),
        chunked("RFC 9112 §8: the last chunk breaks off", "3\r\nabc\r\n0\r\n", " abc …"),
        .reads(
            "RFC 9112 §7.1: bytes after the chunks are the next request",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n\r\nx",
            post("{Transfer-Encoding=chunked} hi"), "GET /2 1.1 {}", leftover: "x"),
        badChunk("RFC 9112 §7.1: no size", "\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: an extension without a size", ";a=b\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a tab before the size", "\t3\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a signed size", "+3\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a negative size", "-3\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a prefix", "0x3\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a space before the size", " 3\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a space after the size", "3 \r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1.1: a space before an extension", "3 ;a\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a size that is not a number", "3g\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: 17 digits", "00000000000000003\r\nabc\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: a size beyond 63 bits", "8000000000000000\r\n", .chunkSize),
        badChunk("RFC 9112 §7.1: the largest number of 64 bits", "ffffffffffffffff\r\n", .chunkSize),
        badChunk("RFC 9112 §2.2: a bare LF after a size", "3\nabc\r\n", .lineEnd),
        badChunk("RFC 9112 §2.2: a bare CR after a size", "3\rabc\r\n", .lineEnd),
        badChunk("RFC 9112 §2.2: a bare LF after an extension", "3;a\nabc\r\n", .lineEnd),
        badChunk("RFC 9112 §7.1.1: a control in an extension", "3;a\u{0}\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a bare semicolon", "3;\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: two semicolons", "3;;a\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a semicolon after an extension", "3;a;\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: white space before a name", "3; a\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: white space after a name", "3;a \r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: white space before a value", "3;a=\tb\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a name that is not a token", "3;a/b\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a name beyond ASCII", "3;\u{e9}\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: no name", "3;=b\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: no value", "3;a=\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: two values", "3;a=b=c\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a value that is not a token", "3;a=b,c\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a quoted string that does not end", "3;a=\"b\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a backslash at the end", "3;a=\"b\\\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: text after a quoted string", "3;a=\"b\"c\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1.1: a quote within a token", "3;a=b\"c\"\r\nabc\r\n", .chunkExtension),
        badChunk("RFC 9112 §7.1: no line end after the data", "3\r\nabc0\r\n\r\n", .chunkEnd, " abc …"),
        badChunk("RFC 9112 §7.1: a bare LF after the data", "3\r\nabc\n0\r\n\r\n", .chunkEnd, " abc …"),
        badChunk("RFC 9112 §7.1: a bare CR after the data", "3\r\nabc\r0\r\n\r\n", .chunkEnd, " abc …"),
        badChunk(
            "RFC 9112 §7.1: data longer by one byte, and a bare LF", "3\r\nabcd\n0\r\n\r\n", .chunkEnd, " abc …"),
        badChunk("RFC 9112 §7.1: data longer than the size", "3\r\nabcd\r\n0\r\n\r\n", .chunkEnd, " abc …"),
    ]

    private static let trailers: [WireCase] = [
        chunked(
            "RFC 9112 §7.1.2: trailers are kept apart from the body", "1\r\na\r\n0\r\nA: b\r\nC:\r\n\r\n",
            " a +{A=b, C=}"),
        chunked(
            "RFC 9110 §5.5: blanks around a trailer's value do not belong to it", "0\r\nA: \t b c \t\r\n\r\n",
            " +{A=b c}"),
        .reads(
            "RFC 9112 §7.1.2: bytes after the trailers are the next request",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\nGET /2 HTTP/1.1\r\n\r\nx",
            post("{Transfer-Encoding=chunked} +{A=b}"), "GET /2 1.1 {}", leftover: "x"),
        .reads(
            "RFC 9112 §8: trailers that break off",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\nC: d",
            post("{Transfer-Encoding=chunked} a …"), leftover: "A: b\r\nC: d"),
        badChunk("RFC 9110 §5.5: a control in a trailer", "0\r\nA: \u{7f}\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a trailer whose name is not a token", "0\r\nA(: b\r\n\r\n", .trailer),
        badChunk("RFC 9113 §8.1: a pseudo-field as a trailer", "0\r\n:path: /\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a trailer without colon", "0\r\nA\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a trailer without name", "0\r\n: b\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a space before the colon", "0\r\nA : b\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a folded trailer", "0\r\nA: b\r\n c\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: NUL in a trailer", "0\r\nA: \u{0}\r\n\r\n", .trailer),
        badChunk("RFC 9112 §7.1.2: a bare LF after a trailer", "0\r\nA: b\n\r\n", .lineEnd),
        badChunk("RFC 9112 §7.1.2: a bare CR in a trailer", "0\r\nA: b\rc\r\n\r\n", .lineEnd),
        badChunk("RFC 9112 §7.1.2: a bare LF at the end", "0\r\n\n", .lineEnd),
        badChunk("RFC 9112 §7.1.2: a bare CR at the end", "0\r\n\rGET", .lineEnd),
    ]

    private static func post(_ rest: String, minor: Int = 1) -> String { "POST / 1.\(minor) " + rest }

    private static func post(_ name: String, _ field: String, _ body: String, _ rest: String) -> WireCase {
        .reads(name, "POST / HTTP/1.1\r\n\(field)\r\n\r\n\(body)", post(rest))
    }

    /// The head is complete, but the bytes after it cannot be trusted.
    private static func bad(_ name: String, _ fields: String, _ error: WireError) -> WireCase {
        let texts = fields.split(separator: "\r\n").map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return "\(parts[0])=\(parts[1].drop { $0 == " " })"
        }
        return .rejects(
            name, "POST / HTTP/1.1\r\n\(fields)\r\n\r\n0\r\n\r\n", error,
            after: post("{" + texts.joined(separator: ", ") + "} …"))
    }

    private static func chunked(
        _ name: String, _ body: String, _ rest: String, coding: String = "chunked"
    ) -> WireCase {
        .reads(
            name, "POST / HTTP/1.1\r\nTransfer-Encoding: \(coding)\r\n\r\n\(body)",
            post("{Transfer-Encoding=\(coding)}\(rest)"))
    }

    private static func badChunk(_ name: String, _ body: String, _ error: WireError, _ rest: String = " …") -> WireCase
    {
        .rejects(
            name, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\(body)", error,
            after: post("{Transfer-Encoding=chunked}\(rest)"))
    }
}
