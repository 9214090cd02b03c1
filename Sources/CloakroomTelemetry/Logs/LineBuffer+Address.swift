/// IP addresses, written without allocation.
extension LineBuffer {
    /// Appends `address:port` or `[IPv6]:port`.
    mutating func append(_ peer: UpstreamPeer) {
        if peer.isIPv6 {
            append("[")
            append(ipv6: peer)
            append("]:")
        } else {
            var shift: UInt64 = 32
            while shift > 0 {
                shift -= 8
                append(decimal: (peer.low >> shift) & 0xff)
                if shift > 0 { append(".") } else { append(":") }
            }
        }
        append(decimal: UInt64(peer.port))
    }

    /// Appends an IPv6 address in its recommended form (RFC 5952 §4): the longest run of at least two zero groups is
    /// `::`, the first one of equal runs.
    private mutating func append(ipv6 peer: UpstreamPeer) {
        var (start, length) = (8, 0)
        var runStart = 0
        for index in 0..<8 {
            guard Self.group(index, of: peer) == 0 else {
                runStart = index + 1
                continue
            }
            if index + 1 - runStart > max(length, 1) { (start, length) = (runStart, index + 1 - runStart) }
        }
        var index = 0
        while index < 8 {
            if index == start {
                append("::")
                index += length
                continue
            }
            if index > 0, index != start + length { append(":") }
            append(hexWithoutZeros: Self.group(index, of: peer))
            index += 1
        }
    }

    private static func group(_ index: Int, of peer: UpstreamPeer) -> UInt64 {
        let half = index < 4 ? peer.high : peer.low
        return (half >> UInt64((3 - index % 4) * 16)) & 0xffff
    }

    /// Appends up to four lower-case hexadecimal digits without leading zeros.
    private mutating func append(hexWithoutZeros value: UInt64) {
        var shift: UInt64 = value < 0x10 ? 0 : value < 0x100 ? 4 : value < 0x1000 ? 8 : 12
        while true {
            let digit = UInt8(truncatingIfNeeded: (value >> shift) & 0xf)
            append(byte: digit < 10 ? digit &+ UInt8(ascii: "0") : digit &- 10 &+ UInt8(ascii: "a"))
            if shift == 0 { return }
            shift -= 4
        }
    }
}
