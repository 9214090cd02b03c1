import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Trailer policy")
struct TrailerPolicyTests {
    private let policy = TrailerPolicy(injectable: ["X-API-TOKEN"])

    private func kept(_ lines: String..., connection: ConnectionOptions = ConnectionOptions()) throws -> String {
        let text = lines.map { $0 + "\r\n" }.joined()
        return String(
            buffer: policy.filter(try TrailerSection(lines: ByteBuffer(string: text)), connection: connection))
    }

    @Test(
        "RFC 9110 §6.5: fields that are determined at the end of a body are forwarded",
        arguments: [
            "Server-Timing: a", "ETag: \"a\"", "Repr-Digest: a", "Content-Digest: a", "Content-MD5: a",
            "grpc-status: 0",
            "grpc-message: a", "X-Checksum: a", "X-API: a", "Iffy: a", "Dated: a", "Signature: a",
        ])
    func passed(line: String) throws {
        try expect(kept(line), equals: line + "\r\n")
    }

    @Test(
        "Rule 52, RFC 9110 §6.5.1: framing, routing, authentication, cookie, control and content fields are dropped",
        arguments: [
            "Content-Length", "Transfer-Encoding", "Host", "TE", "Trailer", "Connection", "Keep-Alive", "Upgrade",
            "HTTP2-Settings", "Authorization", "Cookie", "Set-Cookie", "WWW-Authenticate", "Proxy-Authenticate",
            "Proxy-Authorization", "Proxy-Connection", "Proxy", "Proxy-Anything", "Content-Encoding", "Content-Type",
            "Content-Range", "Cache-Control", "Max-Forwards", "Expect", "Range", "If-Match", "If-None-Match",
            "If-Modified-Since", "If-Anything", "Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning",
            "Pragma", "Forwarded", "X-Forwarded-For", "X-Forwarded-User", "Via", "X-Real-IP", "X-Request-Id",
            "traceparent", "tracestate", "X-Client-Cert-Subject", "Access-Control-Allow-Origin", "Sec-Fetch-Site",
            "Origin", "X-API-TOKEN", "CDN-Cache-Control", "Surrogate-Control", "X-Accel-Expires",
        ])
    func dropped(name: String) throws {
        try expect(kept("A: b", "\(name): c", "D: e"), equals: "A: b\r\nD: e\r\n")
        try expect(kept("A: b", "\(name.uppercased()): c"), equals: "A: b\r\n")
        let folded = name.replacing("-", with: "_")
        try expect(kept("\(folded): c", "A: b"), equals: "A: b\r\n")
        try expect(empty: kept("\(name): c"))
    }

    @Test(
        "Names that begin with neither letter nor digit are dropped (pseudo-fields)", arguments: ["_path", "-a", "!"])
    func oddNames(name: String) throws {
        try expect(empty: kept("\(name): a"))
    }

    @Test("RFC 9110 §7.6.1: if Connection names fields, no trailer is forwarded")
    func namedFields() throws {
        var options = ConnectionOptions()
        options.hasClose = true
        options.hasUpgrade = true
        try expect(kept("A: b", connection: options), equals: "A: b\r\n")
        options.namesFields = true
        try expect(empty: kept("A: b", connection: options))
    }

    @Test("Lines are forwarded unchanged, including blanks")
    func lines() throws {
        try expect(kept("a:b", "Date: x", "c:\t d \t", "E:"), equals: "a:b\r\nc:\t d \t\r\nE:\r\n")
    }
}
