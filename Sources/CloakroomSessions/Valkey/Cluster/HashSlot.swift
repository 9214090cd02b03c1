/// The hash slots of a cluster: each key belongs to one of 16,384 slots, and each slot to one primary.
///
/// Folder `Cluster/`: which server of a cluster has which keys, and when cached data of a slot may be trusted.
enum HashSlot {
    /// The number of slots.
    static let count = 16_384
    /// All slots.
    static let all = 0..<count

    /// The slot of a key: CRC16 (XMODEM) of the key, or of the part between the first `{` and the next `}` if there is
    /// one that is not empty.
    static func slot(of key: String) -> UInt16 {
        var key = key
        return key.withUTF8 { bytes in
            guard let open = bytes.firstIndex(of: UInt8(ascii: "{")),
                let close = bytes[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
            else { return crc16(bytes[...]) & UInt16(count - 1) }
            return crc16(bytes[(open + 1)..<close]) & UInt16(count - 1)
        }
    }

    private static func crc16(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) -> UInt16 {
        var crc: UInt16 = 0
        for byte in bytes { crc = crc << 8 ^ table[Int(truncatingIfNeeded: crc >> 8) ^ Int(byte)] }
        return crc
    }

    /// The remainders of all bytes for the polynomial 0x1021.
    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { crc, _ in crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1 }
    }
}

/// Collects slots in ascending order into ranges.
struct SlotRanges: Sendable {
    private(set) var ranges: [Range<Int>] = []

    mutating func append(_ slot: Int) {
        if let last = ranges.last, last.upperBound == slot {
            ranges[ranges.count - 1] = last.lowerBound..<(slot + 1)
        } else {
            ranges.append(slot..<(slot + 1))
        }
    }
}
