/// An IP address as two words, parsed without allocation: the addresses of clients behind a trusted proxy are read from
/// every request.
///
/// Accepts what ``IPAddress/bytes(of:)`` accepts. An IPv4 address that is mapped into IPv6 is the IPv4 address (RFC 4291
/// §2.5.5.2).
public struct AddressBits: Sendable, Hashable {
    /// Whether it is an IPv6 address.
    public let isVersion6: Bool
    /// The first 64 bits of an IPv6 address; 0 for IPv4.
    public let high: UInt64
    /// The last 64 bits of an IPv6 address; the 32 bits of an IPv4 address.
    public let low: UInt64

    private init(high: UInt64, low: UInt64) {
        let isMapped = high == 0 && low >> 32 == 0xffff
        isVersion6 = !isMapped
        self.high = high
        self.low = isMapped ? low & 0xffff_ffff : low
    }

    private init(version4: UInt32) {
        isVersion6 = false
        high = 0
        low = UInt64(version4)
    }

    /// Parses an address without brackets, zone or port.
    /// - Returns: `nil` for anything else.
    public init?(_ text: Span<UInt8>) {
        // The longest spelling has 45 characters.
        guard text.count >= 2, text.count <= 45 else { return nil }
        for index in text.indices where text[index] == UInt8(ascii: ":") {
            self.init(version6: text)
            return
        }
        guard let address = Self.version4(text) else { return nil }
        self.init(version4: address)
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

    private init?(version6 text: Span<UInt8>) {
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
            while index < end, index - start < 4, let digit = Self.hexadecimal(text[index]) {
                group = group << 4 | UInt16(digit)
                index += 1
            }
            if index < end, text[index] == UInt8(ascii: ".") {
                // An IPv4 address at the end.
                guard count <= 6, let embedded = Self.version4(text.extracting(start..<end)) else { return nil }
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
        self.init(high: words.0, low: words.1)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}
