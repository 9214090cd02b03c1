/// A fast hash of field lines. It only selects a slot: slots are compared in full, so collisions cost bytes and not
/// time.
enum LineHash {
    @inline(__always)
    static func hash(_ bytes: Span<UInt8>, from start: Int, count: Int) -> UInt64 {
        let raw = bytes.bytes
        let factor: UInt64 = 0xff51_afd7_ed55_8ccd
        var hash = 0x9e37_79b9_7f4a_7c15 ^ UInt64(truncatingIfNeeded: count)
        var index = start
        let end = start + count
        precondition(start >= 0 && count >= 0 && end <= bytes.count)
        while index &+ 8 <= end {
            hash = (hash ^ raw.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)) &* factor
            hash ^= hash >> 32
            index &+= 8
        }
        var tail: UInt64 = 0
        if count >= 8 {
            // The last word overlaps the one before it.
            tail = raw.unsafeLoadUnaligned(fromUncheckedByteOffset: end &- 8, as: UInt64.self)
        } else {
            while index < end {
                tail = tail << 8 | UInt64(bytes[index])
                index += 1
            }
        }
        hash = (hash ^ tail) &* factor
        hash = (hash ^ hash >> 32) &* factor
        return hash ^ hash >> 29
    }
}
