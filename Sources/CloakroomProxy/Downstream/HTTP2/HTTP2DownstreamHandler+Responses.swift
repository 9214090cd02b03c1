import CloakroomCore
import CloakroomHTTP2
import CloakroomWire
import NIOCore

/// Writes response heads as HTTP/2 fields (RFC 9113 §8.3.2): names in lower case, without connection-specific fields.
extension HTTP2DownstreamHandler {
    /// Writes the fields of an upstream's response that the header policy kept.
    /// - Parameter except: Name of a field that is omitted.
    func writeHead(
        _ head: borrowing ResponseHead, status: Int, except: StaticString? = nil, additions: ResponseAdditions? = nil,
        on slot: Int, endsStream: Bool
    ) {
        let start = connection.beginHeaders(status: status)
        connection.addFields(of: head, except: except, cache: context.responseLines)
        if let additions {
            if let date = additions.date { connection.addField("date", date.span) }
            if additions.isPrivate { connection.addLine(Self.privateLine) }
            if additions.variesByCookie { connection.addLine(Self.varyLine) }
            if let lines = additions.fieldLines {
                connection.addLines(lines.span, cache: context.responseLines)
            }
        }
        connection.endHeaders(start, on: slot, endsStream: endsStream)
    }

    private static let privateLine = PreparedLine(name: "cache-control", value: "private")
    private static let varyLine = PreparedLine(name: "vary", value: "Cookie")

    func writeLocalHead(_ response: LocalResponse, on slot: Int, endsStream: Bool) {
        let start = connection.beginHeaders(status: response.status)
        connection.addField("date", response.date.span)
        connection.addLines(response.fieldLines.span, cache: context.responseLines)
        if let length = response.contentLength {
            connection.addField("content-length", Array(String(length).utf8).span)
        }
        connection.endHeaders(start, on: slot, endsStream: endsStream)
    }

    /// Writes an interim response without fields (RFC 9110 §15.2).
    func writeInterimHead(status: Int, on slot: Int) {
        let start = connection.beginHeaders(status: status)
        connection.endHeaders(start, on: slot, endsStream: false)
        flushLater()
    }

    /// Writes a trailer section, which ends the response.
    func writeTrailers(_ lines: ByteBuffer, on slot: Int) {
        let start = connection.beginHeaders(status: nil)
        connection.addLines(lines.readableBytesUInt8Span, cache: context.responseLines)
        connection.endHeaders(start, on: slot, endsStream: true)
    }
}
