/// Integers of header blocks (RFC 7541 §5.1).
enum HPACKInteger {
    /// Reads an integer whose first byte shares its upper bits with other information.
    /// - Parameters:
    ///   - index: Position of the first byte; afterwards, the position after the last one.
    ///   - prefix: The mask of the bits that belong to the integer: 2^n - 1.
    /// - Returns: A number less than 2^28 + 127.
    /// - Throws: ``HPACKError`` if the integer does not end in the block or has more than four bytes after the first,
    ///   which no valid index or length needs.
    @inline(__always)
    static func read(_ block: Span<UInt8>, at index: inout Int, prefix: UInt8) throws(HPACKError) -> Int {
        guard index < block.count else { throw .compression }
        let first = block[index] & prefix
        index += 1
        guard first == prefix else { return Int(first) }
        return try readContinuation(block, at: &index, prefix: Int(prefix))
    }

    private static func readContinuation(
        _ block: Span<UInt8>, at index: inout Int, prefix: Int
    ) throws(HPACKError) -> Int {
        var value = prefix
        var shift = 0
        while shift < 28 {
            guard index < block.count else { throw .compression }
            let byte = block[index]
            index += 1
            value += Int(byte & 0x7f) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        throw .compression
    }

    /// Writes an integer whose first byte has other information in its upper bits.
    @inline(__always)
    static func write(
        _ value: Int, prefix: Int, flags: UInt8, to room: inout MutableSpan<UInt8>, at end: inout Int
    ) {
        guard value >= prefix else {
            room[end] = flags | UInt8(truncatingIfNeeded: value)
            end += 1
            return
        }
        room[end] = flags | UInt8(truncatingIfNeeded: prefix)
        end += 1
        var rest = value - prefix
        while rest >= 0x80 {
            room[end] = UInt8(truncatingIfNeeded: rest) | 0x80
            end += 1
            rest >>= 7
        }
        room[end] = UInt8(truncatingIfNeeded: rest)
        end += 1
    }
}
