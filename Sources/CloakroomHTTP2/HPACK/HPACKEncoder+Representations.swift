import NIOCore

/// Writes the representations of fields (RFC 7541 §6).
extension HPACKEncoder {
    /// The maximum size of encoded lines: an index or a literal name replaces the name, and the lengths of strings have
    /// more than one byte from 127 bytes on.
    static func maxEncodedCount(_ lines: Int) -> Int { lines + lines / 32 + 16 }

    /// Appends bytes to a buffer.
    /// - Parameter body: Writes from position 0 and returns the number of bytes.
    @inline(__always)
    static func write(
        upTo count: Int, to out: inout ByteBuffer, _ body: (inout MutableSpan<UInt8>) -> Int
    ) {
        out.reserveCapacity(minimumWritableBytes: count)
        out.moveWriterIndex(forwardBy: count)
        var bytes = out.mutableReadableBytesSpan
        var last = bytes._mutatingExtracting(last: count)
        var room = last._unsafeMutableView(as: UInt8.self)
        let written = body(&room)
        out.moveWriterIndex(to: out.writerIndex - count + written)
    }

    /// Writes the changes of the table's limit (RFC 7541 §4.2).
    mutating func writeTableLimits(to room: inout MutableSpan<UInt8>, at end: inout Int) {
        if lowestLimit < table.limit {
            table.setLimit(lowestLimit)
            HPACKInteger.write(lowestLimit, prefix: 0x1f, flags: 0x20, to: &room, at: &end)
        }
        if nextLimit != table.limit {
            table.setLimit(nextLimit)
            HPACKInteger.write(nextLimit, prefix: 0x1f, flags: 0x20, to: &room, at: &end)
        }
        lowestLimit = nextLimit
    }

    static func write(status: Int, to room: inout MutableSpan<UInt8>, at end: inout Int) {
        let index: UInt8 =
            switch status {
            case 200: 8
            case 204: 9
            case 206: 10
            case 304: 11
            case 400: 12
            case 404: 13
            case 500: 14
            default: 0
            }
        guard index == 0 else {
            room[end] = 0x80 | index
            end += 1
            return
        }
        room[end] = 8
        room[end + 1] = 3
        room[end + 2] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: status / 100 % 10)
        room[end + 3] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: status / 10 % 10)
        room[end + 4] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: status % 10)
        end += 5
    }

    /// Writes the start of a literal that is not inserted.
    @inline(__always)
    func writeName(
        _ bytes: Span<UInt8>, _ start: Int, _ count: Int, _ name: ResponseFieldName,
        to room: inout MutableSpan<UInt8>, at end: inout Int
    ) {
        let flags: UInt8 = name.indexing == .never ? 0x10 : 0
        HPACKInteger.write(Int(name.index), prefix: 0x0f, flags: flags, to: &room, at: &end)
        guard name.index == 0 else { return }
        HPACKInteger.write(count, prefix: 0x7f, flags: 0, to: &room, at: &end)
        room.copyLowerCase(bytes, from: start, count: count, to: end)
        end += count
    }

    /// Writes a string without Huffman code (RFC 7541 §5.2).
    @inline(__always)
    static func writeText(
        _ bytes: Span<UInt8>, from start: Int, count: Int, to room: inout MutableSpan<UInt8>, at end: inout Int
    ) {
        HPACKInteger.write(count, prefix: 0x7f, flags: 0, to: &room, at: &end)
        room.copy(bytes, from: start, count: count, to: end)
        end += count
    }

    /// Writes a string with Huffman code if that is shorter.
    func writeShorter(
        _ bytes: Span<UInt8>, from start: Int, count: Int, to room: inout MutableSpan<UInt8>, at end: inout Int
    ) {
        let encoded = huffman.encodedCount(bytes, from: start, count: count)
        guard encoded < count else {
            return Self.writeText(bytes, from: start, count: count, to: &room, at: &end)
        }
        HPACKInteger.write(encoded, prefix: 0x7f, flags: 0x80, to: &room, at: &end)
        huffman.encode(bytes, from: start, count: count, into: &room, at: end)
        end += encoded
    }
}
