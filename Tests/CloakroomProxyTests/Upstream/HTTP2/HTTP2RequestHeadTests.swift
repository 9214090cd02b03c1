import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Heads of HTTP/2 requests to upstreams")
struct HTTP2RequestHeadTests {
    private let converter = HTTP2RequestHead(scheme: "https", apiTokenName: "x-api-token")

    private func convert(_ text: String, _ converter: HTTP2RequestHead? = nil) throws -> HPACKHeaders {
        var bytes = ByteBuffer(string: text)
        return try (converter ?? self.converter).convert(&bytes)
    }

    @Test("Pseudo-fields come first, names are in lower case, and the fields of an HTTP/1.1 connection are left out")
    func fields() throws {
        let list = try convert(
            "POST /a?b=c HTTP/1.1\r\nHost: api.test\r\nX-Test: A b\r\nContent-Length: 3\r\nTE: trailers\r\n"
                + "Connection: TE\r\nTransfer-Encoding: chunked\r\nKeep-Alive: a\r\nUpgrade: a\r\n\r\n")
        expect(
            list.map { "\($0.name)=\($0.value)" },
            equals: [
                ":method=POST", ":scheme=https", ":authority=api.test", ":path=/a?b=c", "x-test=A b",
                "content-length=3", "te=trailers",
            ])
    }

    @Test("Rule 65: a token in a field of the upstream's own never enters the compression state")
    func ownField() throws {
        var own = converter
        own.bearerName = "x-auth-token"
        let list = try convert("GET / HTTP/1.1\r\nHost: a\r\nX-Auth-Token: t\r\n\r\n", own)
        expect(list.first { $0.name == "x-auth-token" }?.indexable, equals: .neverIndexed)
    }

    @Test("Rule 65: only fields that are common to many requests enter the compression state of all users")
    func indexing() throws {
        let list = try convert(
            "GET /u/1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nCookie: a=b\r\nX-API-TOKEN: t\r\n"
                + "X-Request-Id: 1\r\nUser-Agent: c\r\nAccept: */*\r\nX-Other: d\r\nIf-None-Match: e\r\n"
                + "Accept-Language: \(String(repeating: "d", count: 300))\r\n\r\n")
        var indexing: [String: HPACKIndexing] = [:]
        for (name, _, value) in list { indexing[name] = value }
        for name in ["authorization", "cookie", "x-api-token"] { expect(indexing[name], equals: .neverIndexed) }
        for name in [":path", "x-request-id", "x-other", "if-none-match", "accept-language"] {
            expect(indexing[name], equals: .nonIndexable)
        }
        for name in [":method", ":scheme", ":authority", "user-agent", "accept"] {
            expect(indexing[name], equals: .indexable)
        }
    }

    @Test("Rule 31: values that are not ASCII are not compared with those in the compression state")
    func otherTexts() throws {
        let list = try convert(
            "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: e\u{301}\r\nAccept: \u{e9}\r\nAccept-Language: e\r\n\r\n")
        expect(list.suffix(3).map(\.indexable), equals: [.nonIndexable, .nonIndexable, .indexable])
    }

    @Test(
        "A head that may exceed the peer's frame size is rejected before anything is encoded", arguments: [0x5c, 0x61])
    func frameSize(byte: UInt8) throws {
        var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
        for count in stride(from: 1_000, through: 30_000, by: 1_450) {
            let value = String(decoding: Array(repeating: byte, count: count), as: UTF8.self)
            do {
                let list = try convert("GET / HTTP/1.1\r\nHost: a\r\nX-Large: \(value)\r\n\r\n")
                var encoded = ByteBuffer()
                try encoder.encode(headers: list, to: &encoded)
                #expect(encoded.readableBytes <= 16_384)
            } catch HTTP2RequestHead.Problem.tooLarge {
                // Backslashes have codes of 19 bits, letters of 5.
                #expect(count > (byte == 0x5c ? 6_000 : 25_000))
            }
        }
    }

    @Test("The peer's limit of the list applies")
    func listSize() throws {
        var small = converter
        small.maxList = 200
        #expect(throws: HTTP2RequestHead.Problem.tooLarge) {
            try convert("GET / HTTP/1.1\r\nHost: a\r\nX-A: \(String(repeating: "a", count: 100))\r\n\r\n", small)
        }
        _ = try convert("GET / HTTP/1.1\r\nHost: a\r\n\r\n", small)
    }

    @Test("Malformed heads and trailers are rejected")
    func malformed() {
        for text in ["", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\nx", "GET /\r\n\r\n"] {
            #expect(throws: HTTP2RequestHead.Problem.malformed) { try convert(text) }
        }
        #expect(throws: HTTP2RequestHead.Problem.malformed) {
            try converter.convert(trailers: ByteBuffer(string: "a b\r\n"))
        }
    }

    @Test("Trailers are converted in order")
    func trailers() throws {
        let list = try converter.convert(trailers: ByteBuffer(string: "X-Sum: 1\r\nB: 2\r\n"))
        expect(list.map { "\($0.name)=\($0.value)" }, equals: ["x-sum=1", "b=2"])
    }
}
