import CloakroomCore
import CloakroomWire
import NIOCore

/// Invariants of requests and responses.
enum MessageChecks {
    /// Parses a connection as a whole and in pieces.
    /// - Throws: ``Violation`` if the results differ.
    static func read<Head: WireHead>(
        _ bytes: [UInt8], limits: HeadLimits = HeadLimits(), isToHead: Bool = false, as: Head.Type
    ) throws(Violation) -> MessageStream<Head> {
        let whole = MessageStream<Head>(bytes, limits: limits, isToHead: isToHead, pieces: [bytes.count])
        for pieces in [Segments.single(in: bytes), Segments.random(in: bytes), Segments.random(in: bytes, turn: 1)] {
            let other = MessageStream<Head>(bytes, limits: limits, isToHead: isToHead, pieces: pieces)
            try require(other.matches(whole), "parsed differently when cut at \(pieces.prefix(16))")
        }
        return whole
    }

    /// Compares the framing with the fields as a reference parser reads them (RFC 9112 §6.3).
    /// - Parameter hasBody: Whether the message may have a body.
    /// - Parameter isResponse: Whether a body without length ends with the connection.
    static func checkFraming(
        _ framing: BodyFraming, of head: PlainHead, hasBody: Bool, isResponse: Bool
    ) throws(Violation) {
        let lengths = head.values("content-length")
        let codings = head.values("transfer-encoding").map { $0.lowercased() }
        try require(lengths.isEmpty || codings.isEmpty, "both a length and a coding were accepted")
        try require(lengths.count <= 1 && codings.count <= 1, "a length or coding was accepted twice")
        try require(codings.allSatisfy { $0 == "chunked" }, "a coding other than chunked was accepted")
        try require(
            lengths.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } && Int($0) != nil },
            "an invalid length was accepted")
        let expected: BodyFraming
        if !hasBody {
            expected = .none
        } else if !codings.isEmpty {
            expected = .chunked
        } else if let length = lengths.first.flatMap({ Int($0) }) {
            expected = length == 0 ? .none : .length(length)
        } else {
            expected = isResponse ? .untilClose : .none
        }
        try require(framing == expected, "framing is \(framing), and should be \(expected)")
    }

    /// The lines of a head that the header policy keeps.
    static func keptLines(_ head: some WireHead) -> [UInt8] {
        var lines: [UInt8] = []
        for index in head.fields.indices where !head.fields[index].isStripped {
            let start = Int(head.fields[index].nameStart)
            let isLast = index + 1 == head.fields.count
            let end = isLast ? head.bytes.readableBytes - 2 : Int(head.fields[index + 1].nameStart)
            lines += head.bytes.getBytes(at: head.bytes.readerIndex + start, length: end - start) ?? []
        }
        return lines
    }

    /// A body in its forwarded form: with a length, or chunked.
    static func body<Head>(_ message: MessageStream<Head>.Message, policy: TrailerPolicy) -> (
        field: String, bytes: [UInt8]
    ) {
        switch message.framing {
        case nil, .none?, .length?: return ("", message.body)
        case .chunked?, .untilClose?: break
        }
        var buffer = ByteBuffer()
        let middle = message.body.count / 2
        for piece in [message.body[..<middle], message.body[middle...]] where !piece.isEmpty {
            ChunkEncoder.writeChunkStart(piece.count, into: &buffer)
            buffer.writeBytes(piece)
            ChunkEncoder.writeChunkEnd(into: &buffer)
        }
        ChunkEncoder.writeLastChunk(trailers: message.trailers.map { policy.filter($0) }, into: &buffer)
        return ("Transfer-Encoding: chunked\r\n", Array(buffer.readableBytesView))
    }

    /// Checks the filtered trailer fields, and that filtering them again drops none.
    static func checkTrailers(_ section: TrailerSection, policy: TrailerPolicy) throws(Violation) {
        let plain = try PlainHead.fields(ofTrailers: section.bytes)
        try PlainHead.check(section.fields, in: section.bytes, are: plain)
        let kept = policy.filter(section)
        guard kept.readableBytes > 0 else { return }
        let again: TrailerSection
        do throws(WireError) {
            again = try TrailerSection(lines: kept)
        } catch {
            throw Violation("the filtered trailer fields are rejected: \(error)")
        }
        try require(policy.filter(again) == kept, "filtering the trailer fields again drops some")
        for field in try PlainHead.fields(ofTrailers: kept) {
            try require(!Forbidden.inTrailers(field.name), "the trailer \(field.name) was kept")
        }
    }
}

/// Names that must never be forwarded, checked without the tables of the policies. Includes names that an upstream
/// would fold to them.
enum Forbidden {
    static let injectable = ["X-API-TOKEN"]

    static func inRequests(_ name: String) -> Bool {
        [
            "x-api-token", "authorization", "proxy-authorization", "x-client-cert-subject", "host", "connection",
            "transfer-encoding", "upgrade", "te", "trailer", "keep-alive", "x-request-id", "traceparent", "tracestate",
            "proxy",
        ].contains(folded(name)) || folded(name) == "content-length" && name != "content-length"
            || folded(name).hasPrefix("x-forwarded-")
    }

    static func inTrailers(_ name: String) -> Bool {
        [
            "x-api-token", "authorization", "host", "content-length", "transfer-encoding", "cookie", "set-cookie",
            "content-type", "content-encoding", "x-client-cert-subject", "connection", "date", "range",
        ].contains(folded(name))
    }

    private static func folded(_ name: String) -> String {
        String(
            decoding: name.lowercased().utf8.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
                default: UInt8(ascii: "-")
                }
            }, as: UTF8.self)
    }
}
