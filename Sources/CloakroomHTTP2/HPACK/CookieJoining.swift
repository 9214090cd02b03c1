import CloakroomWire
import NIOCore

/// Joins cookie fields of a head that are not next to each other (RFC 9113 §8.2.3).
enum CookieJoining {
    /// Joins all cookie fields to one, at the position of the first. The head has not been ended by an empty line.
    static func join(_ head: inout RequestHead) {
        let source = head.bytes
        var bytes = ByteBuffer()
        bytes.reserveCapacity(source.readableBytes + 2)
        var fields: [FieldSlice] = []
        fields.reserveCapacity(head.fields.count)
        var isJoined = false
        // The pseudo-fields, with `:authority`, which is a field.
        let start = firstLine(of: head)
        append(source, from: 0, to: start, &bytes)
        for field in head.fields {
            if Int(field.nameStart) < start {
                fields.append(field)
            } else if field.name != .cookie {
                append(field, of: source, &bytes, &fields)
            } else if !isJoined {
                isJoined = true
                appendCookies(of: head, source, &bytes, &fields)
            }
        }
        head.bytes = bytes
        head.fields = fields
    }

    /// Position of the first line after the pseudo-fields.
    private static func firstLine(of head: borrowing RequestHead) -> Int {
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where bytes[Int(field.nameStart)] != UInt8(ascii: ":") { return Int(field.nameStart) }
        return bytes.count
    }

    private static func append(
        _ field: FieldSlice, of source: ByteBuffer, _ bytes: inout ByteBuffer, _ fields: inout [FieldSlice]
    ) {
        let start = bytes.readableBytes
        append(source, from: Int(field.nameStart), to: field.valueRange.end + 2, &bytes)
        fields.append(
            FieldSlice(
                nameStart: start, nameCount: Int(field.nameCount),
                valueStart: start + Int(field.valueStart) - Int(field.nameStart), valueCount: Int(field.valueCount),
                name: field.name))
    }

    private static func appendCookies(
        of head: borrowing RequestHead, _ source: ByteBuffer, _ bytes: inout ByteBuffer, _ fields: inout [FieldSlice]
    ) {
        let start = bytes.readableBytes
        bytes.writeStaticString("cookie: ")
        let valueStart = bytes.readableBytes
        var isFirst = true
        for field in head.fields where field.name == .cookie {
            if !isFirst { bytes.writeStaticString("; ") }
            isFirst = false
            append(source, from: Int(field.valueStart), to: field.valueRange.end, &bytes)
        }
        fields.append(
            FieldSlice(
                nameStart: start, nameCount: 6, valueStart: valueStart, valueCount: bytes.readableBytes - valueStart,
                name: .cookie))
        bytes.writeStaticString("\r\n")
    }

    private static func append(_ source: ByteBuffer, from start: Int, to end: Int, _ bytes: inout ByteBuffer) {
        guard let slice = source.getSlice(at: source.readerIndex + start, length: end - start) else { return }
        bytes.writeImmutableBuffer(slice)
    }
}
