import NIOCore
import NIOHPACK
import NIOHTTP2

/// The data that a client has read on one stream.
struct HTTP2TestResponse: Sendable {
    /// The field sections, in order: interim responses, the response head, trailers.
    var sections: [HPACKHeaders] = []
    var body = ByteBuffer()
    /// The number of body bytes received, kept or not.
    var bodyCount = 0
    /// Whether the server ended the stream with END_STREAM.
    var isEnded = false
    /// Whether END_STREAM was on the field section itself.
    var endedWithFields = false
    /// The error code with which the server reset the stream, if it did.
    var reset: HTTP2ErrorCode?

    var isOver: Bool { isEnded || reset != nil }

    /// The response head, once it has arrived.
    var head: HPACKHeaders? { sections.first { ($0.first(name: ":status") ?? "1").first != "1" } }
    var status: Int? { head?.first(name: ":status").flatMap { Int($0) } }
    /// The statuses of interim responses.
    var interim: [String] { sections.compactMap { $0.first(name: ":status") }.filter { $0.first == "1" } }
    var trailers: HPACKHeaders? { sections.last.flatMap { $0.first(name: ":status") == nil ? $0 : nil } }
    var text: String { String(buffer: body) }

    /// The value of a field that appears once.
    subscript(name: String) -> String? {
        let values = head?[name] ?? []
        return values.count == 1 ? values[0] : nil
    }

    /// The status, and the `code` of a problem document.
    var problem: String { "\(status ?? 0) \(code ?? "")" }
    /// The `code` of a problem document.
    var code: String? {
        guard self["content-type"] == "application/problem+json",
            let start = text.firstRange(of: "\"code\":\"")?.upperBound, let end = text[start...].firstIndex(of: "\"")
        else { return nil }
        return String(text[start..<end])
    }
}

/// A received GOAWAY (RFC 9113 §6.8).
struct HTTP2GoAway: Sendable, Equatable {
    var last: UInt32
    var code: HTTP2ErrorCode

    /// The first GOAWAY of a graceful shutdown; a second one has the final stream id.
    static let announcement = HTTP2GoAway(last: 0x7fff_ffff, code: .noError)
}
