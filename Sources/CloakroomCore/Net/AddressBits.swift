import CloakroomWire

/// An IP address as two words, parsed without allocation: the addresses of clients behind a trusted proxy are read from
/// every request.
///
/// An IPv4 address that is mapped into IPv6 is the IPv4 address (RFC 4291 §2.5.5.2); ``IPAddress/bytes(of:)`` keeps the
/// difference.
public struct AddressBits: Sendable, Hashable {
    /// Whether it is an IPv6 address.
    public let isVersion6: Bool
    /// The first 64 bits of an IPv6 address; 0 for IPv4.
    public let high: UInt64
    /// The last 64 bits of an IPv6 address; the 32 bits of an IPv4 address.
    public let low: UInt64

    /// Parses an address without brackets, zone or port.
    /// - Returns: `nil` for anything else.
    public init?(_ text: Span<UInt8>) {
        guard let words = Self.words(text) else { return nil }
        let isMapped = words.isVersion6 && words.high == 0 && words.low >> 32 == 0xffff
        isVersion6 = words.isVersion6 && !isMapped
        high = words.high
        low = isMapped ? words.low & 0xffff_ffff : words.low
    }

    /// The address as it is written, mapped or not.
    static func words(_ text: Span<UInt8>) -> (high: UInt64, low: UInt64, isVersion6: Bool)? {
        // The longest spelling has 45 characters.
        guard text.count >= 2, text.count <= 45 else { return nil }
        for index in text.indices where text[index] == UInt8(ascii: ":") {
            guard let (high, low) = version6(text) else { return nil }
            return (high, low, true)
        }
        guard let address = version4(text) else { return nil }
        return (0, UInt64(address), false)
    }

    private static func version4(_ text: Span<UInt8>) -> UInt32? {
        var address: UInt32 = 0
        var part: UInt32 = 0
        var digits = 0
        var dots = 0
        for index in text.indices {
            let byte = text[index]
            if byte == UInt8(ascii: ".") {
                guard digits > 0, dots < 3 else { return nil }
                address = address << 8 | part
                dots += 1
                part = 0
                digits = 0
            } else {
                // No leading zeros.
                guard byte >= 0x30, byte <= 0x39, digits == 0 || part > 0 else { return nil }
                part = part * 10 + UInt32(byte - 0x30)
                digits += 1
                guard part <= 255 else { return nil }
            }
        }
        guard dots == 3, digits > 0 else { return nil }
        return address << 8 | part
    }

    private static func version6(_ text: Span<UInt8>) -> (UInt64, UInt64)? {
        let colon = UInt8(ascii: ":")
        let end = text.count
        var groups = InlineArray<8, UInt16>(repeating: 0)
        var count = 0
        /// The number of groups before `::`.
        var gap: Int?
        var index = 0
        if text[0] == colon {
            guard text[1] == colon else { return nil }
            gap = 0
            index = 2
        }
        while index < end {
            let start = index
            var group: UInt16 = 0
            while index < end, index - start < 4, let digit = Byte.hexadecimal(text[index]) {
                group = group << 4 | UInt16(truncatingIfNeeded: digit)
                index += 1
            }
            if index < end, text[index] == UInt8(ascii: ".") {
                // An IPv4 address at the end.
                guard count <= 6, let embedded = version4(text.extracting(start..<end)) else { return nil }
                groups[count] = UInt16(embedded >> 16)
                groups[count + 1] = UInt16(embedded & 0xffff)
                count += 2
                break
            }
            guard index > start, count < 8 else { return nil }
            groups[count] = group
            count += 1
            guard index < end else { break }
            guard text[index] == colon, index + 1 < end else { return nil }
            index += 1
            if text[index] == colon {
                guard gap == nil else { return nil }
                gap = count
                index += 1
            }
        }
        guard gap == nil ? count == 8 : count <= 7 else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for position in 0..<count {
            let place = position < gap ?? count ? position : 8 - count + position
            let value = UInt64(groups[position]) << UInt64(16 * (3 - place % 4))
            if place < 4 { words.0 |= value } else { words.1 |= value }
        }
        return words
    }
}
