import CloakroomWire
import NIOCore
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
        #expect(try kept(line) == line + "\r\n")
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
        #expect(try kept("A: b", "\(name): c", "D: e") == "A: b\r\nD: e\r\n")
        #expect(try kept("A: b", "\(name.uppercased()): c") == "A: b\r\n")
        let folded = name.replacing("-", with: "_")
        #expect(try kept("\(folded): c", "A: b") == "A: b\r\n")
        #expect(try kept("\(name): c").isEmpty)
    }

    @Test(
        "Names that begin with neither letter nor digit are dropped (pseudo-fields)", arguments: ["_path", "-a", "!"])
    func oddNames(name: String) throws {
        #expect(try kept("\(name): a").isEmpty)
    }

    @Test("RFC 9110 §7.6.1: if Connection names fields, no trailer is forwarded")
    func namedFields() throws {
        var options = ConnectionOptions()
        options.hasClose = true
        options.hasUpgrade = true
        #expect(try kept("A: b", connection: options) == "A: b\r\n")
        options.namesFields = true
        #expect(try kept("A: b", connection: options).isEmpty)
    }

    @Test("Lines are forwarded unchanged, including blanks")
    func lines() throws {
        #expect(try kept("a:b", "Date: x", "c:\t d \t", "E:") == "a:b\r\nc:\t d \t\r\nE:\r\n")
    }
}
