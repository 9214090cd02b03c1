// The standard library has no function that copies a range of bytes between spans. Pointers are used in these two
// functions, after the ranges have been checked.
extension MutableSpan<UInt8> {
    /// Copies bytes of another span.
    @inline(__always)
    mutating func copy(_ source: Span<UInt8>, from start: Int, count: Int, to position: Int) {
        let part = source.extracting(start..<(start + count))
        var target = _mutatingExtracting(position..<(position + count))
        target.withUnsafeMutableBytes { room in
            part.withUnsafeBytes { room.copyMemory(from: $0) }
        }
    }

    /// Moves bytes within the span. The ranges may overlap.
    @inline(__always)
    mutating func move(from start: Int, count: Int, to position: Int) {
        let limit = self.count
        precondition(count >= 0 && start >= 0 && position >= 0 && start + count <= limit && position + count <= limit)
        withUnsafeMutableBytes { room in
            UnsafeMutableRawBufferPointer(rebasing: room[position..<(position + count)])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: room[start..<(start + count)]))
        }
    }
}

extension Span<UInt8> {
    /// Whether the bytes at a position equal those of a text.
    @inline(__always)
    func matches(_ text: StaticString, at start: Int, count length: Int) -> Bool {
        let expected = text.utf8CodeUnitCount
        guard length == expected else { return false }
        return text.withUTF8Buffer { other in
            for index in 0..<expected where self[start + index] != other[index] { return false }
            return true
        }
    }

    /// Whether two ranges of this span and another one have equal bytes.
    @inline(__always)
    package func equals(_ other: Span<UInt8>, at start: Int, otherStart: Int, count length: Int) -> Bool {
        var index = 0
        let (left, right) = (bytes, other.bytes)
        guard start >= 0, otherStart >= 0, start + length <= self.count, otherStart + length <= other.count else {
            return false
        }
        // The ranges have been checked.
        while index &+ 8 <= length {
            let word = left.unsafeLoadUnaligned(fromUncheckedByteOffset: start &+ index, as: UInt64.self)
            guard word == right.unsafeLoadUnaligned(fromUncheckedByteOffset: otherStart &+ index, as: UInt64.self)
            else { return false }
            index &+= 8
        }
        if length >= 8 {
            // The last word overlaps the one before it.
            let last = length &- 8
            return left.unsafeLoadUnaligned(fromUncheckedByteOffset: start &+ last, as: UInt64.self)
                == right.unsafeLoadUnaligned(fromUncheckedByteOffset: otherStart &+ last, as: UInt64.self)
        }
        while index < length {
            guard self[start + index] == other[otherStart + index] else { return false }
            index += 1
        }
        return true
    }
}
